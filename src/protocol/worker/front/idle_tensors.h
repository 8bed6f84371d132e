// Finds the tensors that this rank has not used for long. The rank lets go of them, so that their
// memory can be used for others (control/names/declarations.h).
//
// "Long" is twice the longest pause after which this rank has used a tensor again, counted in
// operations, with a minimum and a maximum. So a step that uses ten thousand tensors in turn keeps
// them all. One in 64 tensors stays sixteen times as long, and one in 64 of these sixteen times as
// long again. So the rank notices when it lets go too early, because it uses one of them again.
//
// A value without I/O. One thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "src/base/types.h"

namespace byteps::protocol {

class IdleTensors {
 public:
  static constexpr uint64_t kPatienceMin = 2048;
  static constexpr uint64_t kPatienceMax = 131072;
  static constexpr uint64_t kProbeOneIn = 64;   // one tensor in this many ...
  static constexpr uint64_t kProbeFactor = 16;  // ... stays this many times as long

  explicit IdleTensors(uint64_t patience_min = kPatienceMin, uint64_t patience_max = kPatienceMax)
      : patience_min_(patience_min), patience_max_(patience_max) {}

  void Clear();
  // Begins an operation on a tensor. `last`: the number of the tensor's last operation, or 0 if
  // this is its first one. Returns the number of the new operation.
  uint64_t Begin(uint64_t last);
  // Notes that the operation with this number, on this tensor, has ended well.
  void End(uint64_t number, TensorId tensor);
  // Returns the tensors that have been idle for too long, each once. Some may be in use or unknown
  // by now. Most calls return nothing, because the list is checked only now and then.
  std::vector<TensorId> TakeIdle();

  uint64_t begun() const { return begun_; }
  uint64_t patience() const;
  // Returns for how many operations the place of a name in the order is kept before its first use.
  uint64_t patience_for_first() const { return kProbeFactor * patience_min_; }

 private:
  using ByNumber = std::map<uint64_t, TensorId>;

  uint64_t patience_min_;
  uint64_t patience_max_;
  uint64_t begun_ = 0;
  uint64_t longest_pause_ = 0;
  uint64_t look_at_ = 0;
  std::array<uint64_t, 3> taken_{};  // the tensors taken out of each map so far
  // The idle tensors by the number of their last operation. The second and third map hold the
  // tensors that stay longer.
  std::array<ByNumber, 3> ended_;
};

}  // namespace byteps::protocol
