#include "src/protocol/shard/shard_state.h"

namespace byteps::protocol {

ShardState::ViewChange ShardState::SetView(const wire::View& view, ShardId self) {
  ViewChange change;
  change.old_epoch = facts.view.epoch();
  change.begins = facts.view.Set(view, self);
  change.gone = facts.members.SetView(view, change.begins);
  if (change.begins) {
    facts.pieces.Clear();
    rounds.Clear();
    wants.Clear();
  }
  facts.sets.OnView(change.begins);
  answers.SetSlots(facts.members.size(), change.begins);
  return change;
}

}  // namespace byteps::protocol
