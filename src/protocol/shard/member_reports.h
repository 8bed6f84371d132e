// Functions over the state of a shard, for the reports of members besides pushes and verdicts: the
// answers that have come, the verdicts that all hold, that a member has said all it holds, and that
// it has joined. One thread at a time: the shard's.
//
// REQUIRES of all functions: the sender is a slot of the generation, and the view of `epoch` is in
// force or was.
#pragma once

#include <cstdint>
#include <vector>

#include "src/protocol/shard/shard_state.h"
#include "src/wire/data.h"

namespace byteps::protocol {

// Notes that `from` has all answers up to this number. A number that was never sent counts as the
// last sent one.
void TakeAck(ShardState& state, Slot from, uint64_t number);
// Notes that `from` holds these verdicts, and that all members do.
void TakeHave(ShardState& state, Slot from, uint64_t epoch,
              const std::vector<wire::HeldPiece>& pieces);
// Notes that `from` has said all it holds of pieces that this shard owns since `epoch` or earlier.
void TakeResync(ShardState& state, Slot from, uint64_t epoch);
// Notes that `from` takes no part in rounds until this join is over. `bitmap`: its ranks that have
// joined; empty: all of them.
void TakeJoined(ShardState& state, Slot from, uint64_t number, ConstByteSpan bitmap = {});

}  // namespace byteps::protocol
