// The numbers of tensors, and the state from which their pieces are dealt to shards. No number is
// used twice, not even by coordinators one after the other, because each coordinator has a range of
// its own.
//
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
#include "src/wire/names.h"
#include "src/wire/tensor_spec.h"

namespace byteps::protocol {

class TensorDealer {
 public:
  // Sets the numbers of this coordinator: from `first` on, below `first` + `count`.
  void Number(TensorId first, uint32_t count);
  // Begins a generation of so many ranks; `dealer` has dealt nothing. The number of ranks counts
  // here, because workers cut by it, too (worker/exchange/deal.h). The dealer's weights are those
  // of the view, which count contributors.
  void Begin(plan::PieceAssigner dealer, uint32_t ranks, uint32_t piece_bytes_max);

  // Returns the next tensor. kInvalidArgument, kExhausted: this spec gets none.
  Result<Attempt::Variant> Deal(const wire::TensorSpec& spec);

  // After a restart, notes that a worker knows this tensor.
  void Hear(TensorId tensor);
  // Notes that nobody knows this tensor any more.
  void Forget(TensorId tensor) { heard_.erase(tensor); }
  // Goes on dealing where `last` ended, because all workers have told. `last`: the latest tensor
  // that a worker knows; null: there is none.
  Status GoOnAfter(const Attempt::Entry* last);
  // Tells which tensors of earlier coordinators a worker knows, in as many messages as that needs;
  // none before GoOnAfter.
  std::vector<wire::StillKnown> StillKnown() const;

 private:
  std::optional<plan::PieceAssigner> dealer_;
  uint32_t ranks_ = 0;
  uint32_t piece_bytes_max_ = 0;
  TensorId first_ = 1;
  TensorId next_ = 1;
  TensorId end_ = UINT32_MAX;
  std::set<TensorId> heard_;  // tensors of earlier coordinators
  bool all_heard_ = false;
};

}  // namespace byteps::protocol
