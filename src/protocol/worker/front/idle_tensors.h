// Which tensors this rank has not used for long: it lets go of them, so that their memory can be
// used for others (control/declarations.h).
//
// "Long" is twice the longest pause after which this rank has used a tensor again, counted in
// operations, with a least and a most. So a step that uses ten thousand tensors in turn keeps them
// all. One in 64 tensors stays sixteen times as long, and one in 64
// of these sixteen times as long again: thus the rank notices when it lets go too early, because it
// uses one of them again.
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
  static constexpr uint64_t kProbeOneIn = 64;   // one in so many ...
  static constexpr uint64_t kProbeFactor = 16;  // ... stays so many times as long

  explicit IdleTensors(uint64_t patience_min = kPatienceMin, uint64_t patience_max = kPatienceMax)
      : patience_min_(patience_min), patience_max_(patience_max) {}

  void Clear();
  // An operation begins on a tensor whose last one had this number; 0: it is the first one.
  // Returns its number.
  uint64_t Begin(uint64_t last);
  // The operation with this number, of this tensor, has ended well.
  void End(uint64_t number, TensorId tensor);
  // Those that have been idle for too long; each is returned once. Some may be used, or be unknown,
  // by now. Looks now and then only.
  std::vector<TensorId> TakeIdle();

  uint64_t begun() const { return begun_; }
  uint64_t patience() const;
  // So long the place of a name in the order is kept before its first use.
  uint64_t patience_for_first() const { return kProbeFactor * patience_min_; }

 private:
  using ByNumber = std::map<uint64_t, TensorId>;

  uint64_t patience_min_;
  uint64_t patience_max_;
  uint64_t begun_ = 0;
  uint64_t longest_pause_ = 0;
  uint64_t look_at_ = 0;
  std::array<uint64_t, 3> taken_{};  // so many of each
  // By the number of the last operation; behind the first those that stay longer.
  std::array<ByNumber, 3> ended_;
};

}  // namespace byteps::protocol
