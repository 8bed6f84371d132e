// Functions over the state of a shard, for verdicts that members tell, because a piece moved here
// or a connection broke. The shard adopts a verdict that it has not decided itself, and answers the
// members that wait for it. One thread at a time: the shard's.
#pragma once

#include <cstdint>

#include "src/base/status.h"
#include "src/protocol/shard/intake.h"
#include "src/protocol/shard/shard_state.h"
#include "src/wire/data.h"

namespace byteps::protocol {

// Fills in where the payload of a told verdict goes. kProtocol: a correct worker of this view never
// sends this. REQUIRES: header and size of `incoming` are filled in, the sender is a member, and
// the header's home is a shard.
Status PlaceToldVerdict(ShardState& state, Slot from, Incoming& incoming);
// Takes a verdict whose payload is in its place.
void TakeToldVerdict(ShardState& state, Slot from, const Incoming& incoming);

// Notes that `from` holds the verdict of this round, and that all members do. REQUIRES: this shard
// owns the piece since `since`.
void TakeHeldPiece(ShardState& state, Slot from, const wire::HeldPiece& held, uint64_t since);

}  // namespace byteps::protocol
