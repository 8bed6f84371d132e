// Functions over the state of a shard, for pushes and for requests that a round ends in an error.
// They decide which pushes are right, where a payload goes, and what the payload becomes: a
// contribution to a round, a repeat that is answered from the verdict, or nothing. One thread at a
// time: the shard's. Steady state allocates nothing.
#pragma once

#include <string>

#include "src/base/status.h"
#include "src/protocol/shard/intake.h"
#include "src/protocol/shard/shard_state.h"
#include "src/wire/data.h"

namespace byteps::protocol {

// Fills in where the payload of a push goes. kProtocol: a correct worker of this view never sends
// this. kExhausted: twice too many rounds are open. REQUIRES: header and size of `incoming` are
// filled in, the sender is a member, and the header's home is a shard.
Status PlacePush(ShardState& state, Slot from, Incoming& incoming);
// Takes a push whose payload is in its place.
void TakePush(ShardState& state, Slot from, const Incoming& incoming);
// Takes the request of `from` that the round ends in an error; it comes instead of a push. The
// request opens the round if there is none, and is answered like a push. If `from` has already
// pushed the round, its contribution stays: if all other contributions come before the error may be
// decided, the round ends in a sum. Errors: see PlacePush.
Status TakeAbort(ShardState& state, Slot from, const wire::DataHeader& header,
                 const std::string& why);

}  // namespace byteps::protocol
