// Functions over the whole state of the coordinator, for processes that ask to be members. Such a
// process waits for the next view, gets the place that it has already, or is refused with the
// reason.
#pragma once

#include "src/protocol/control/changes/state.h"
#include "src/protocol/control/members/roster.h"
#include "src/wire/membership.h"

namespace byteps::protocol {

// Takes the first word of a process over this connection, or a later one of a worker that has left.
void OnJoin(CoordinatorState& state, ConnectionId from, const wire::Join& join);
// Judges the processes that joined while the coordinator did not know the view in force.
void JudgeAllWhoWait(CoordinatorState& state);

}  // namespace byteps::protocol
