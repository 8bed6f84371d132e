#include "src/protocol/shard/state/shard_view.h"

#include <utility>

#include "src/protocol/control/views/sum_order.h"
#include "src/protocol/view_parts.h"

namespace byteps::protocol {

bool ShardView::Set(const wire::View& view, ShardId self) {
  epoch_ = view.epoch;
  self_ = self;
  ownership_ = OwnershipOf(view);
  const bool begins = std::exchange(generation_, view.generation) != view.generation;
  if (begins) {
    sum_rules_ = SumRulesOf(view);
    sums_ = CheckSums(view);
  }
  return begins;
}

std::optional<uint64_t> ShardView::Counts(const wire::PieceRef& ref, ShardId home,
                                          uint64_t epoch) const {
  if (!ownership_.any()) return std::nullopt;
  plan::Owner owner = ownership_.OwnerOf(home, ref.tensor, ref.piece);
  if (!rules_.Counts(owner, self_, epoch)) return std::nullopt;
  return owner.since;
}

bool ShardView::Stays(TensorId tensor, uint32_t piece, ShardId home, uint64_t old_epoch) const {
  plan::Owner nobody{self_ + 1, 0};
  plan::Owner owner = ownership_.any() ? ownership_.OwnerOf(home, tensor, piece) : nobody;
  return rules_.Stays(owner, self_, old_epoch);
}

}  // namespace byteps::protocol
