// Functions over the state of a shard that look at its pieces again, because members have changed,
// or because ranks have let go of tensors. They drop the pieces that do not belong to this shard
// any more, or that no member needs any more. One thread at a time: the shard's.
#pragma once

#include <cstdint>
#include <vector>

#include "src/protocol/shard/shard_state.h"
#include "src/wire/names.h"

namespace byteps::protocol {

// Handles a view of the same generation that follows the view of `old_epoch`. Drops the pieces that
// went to other shards. Also drops a piece that went away and came back, because other shards have
// decided about it meanwhile. Decides each round that is complete without the members that are
// gone.
void ReviewPieces(ShardState& state, uint64_t old_epoch);
// Drops the rounds of this use of the tensors, because the ranks disagree in this use about their
// name. Late pushes for these rounds are ignored. Verdicts of earlier rounds are kept until all
// members have them.
void RetireTensors(ShardState& state, const std::vector<TensorId>& tensors, uint64_t use);
// Drops pieces of retired tensors that no member needs any more. Must be called after a member has
// said something.
void ReviewRetired(ShardState& state);
// Forgets these tensors, because all ranks have let go of them.
void ForgetTensors(ShardState& state, const std::vector<TensorId>& tensors);
// Drops the pieces of all tensors in the range of `known` that no member knows any more.
void DropUnknown(ShardState& state, const wire::StillKnown& known);

}  // namespace byteps::protocol
