// Numbers of tensors, and the state from which their pieces are dealt to shards. No number is used
// twice, also not by coordinators one after the other: each has a range of its own.
// A value without I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/plan/piece_assigner.h"
#include "src/protocol/control/names/attempt.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class TensorDealer {
 public:
  // This coordinator's numbers: `first`, and fewer than `first` + `count`.
  void Number(TensorId first, uint32_t count);
  // A generation of so many ranks begins: `dealer` has dealt nothing. Ranks, by which workers cut
  // too (worker/deal.h); the dealer's weights are those of the view, which count contributors.
  void Begin(plan::PieceAssigner dealer, uint32_t ranks, uint32_t piece_bytes_max);

  // The next tensor. kInvalidArgument, kExhausted: not this one.
  Result<Attempt::Variant> Deal(const wire::TensorSpec& spec);

  // After a restart. A worker knows this tensor:
  void Hear(TensorId tensor);
  // Nobody knows it any more.
  void Forget(TensorId tensor) { heard_.erase(tensor); }
  // All have told: it goes on dealing where the latest of these ended (null: there is none).
  Status GoOnAfter(const Attempt::Entry* last);
  // Which tensors of earlier coordinators somebody knows, in as many messages as it needs; none
  // before GoOnAfter.
  std::vector<wire::StillKnown> StillKnown() const;

 private:
  std::optional<plan::PieceAssigner> dealer_;
  uint32_t ranks_ = 0;
  uint32_t piece_bytes_max_ = 0;
  TensorId first_ = 1;
  TensorId next_ = 1;
  TensorId end_ = UINT32_MAX;
  std::set<TensorId> heard_;  // of earlier coordinators
  bool all_heard_ = false;
};

}  // namespace byteps::protocol
