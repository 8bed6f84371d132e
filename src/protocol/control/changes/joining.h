// Functions over the whole state of the coordinator: processes that ask to be members wait for the
// next view, get the place that they have already, or are refused with the reason.
#pragma once

#include "src/protocol/control/changes/state.h"
#include "src/protocol/control/members/roster.h"
#include "src/wire/control.h"

namespace byteps::protocol {

// The first word of a process over this connection, or a later one of a worker that has left.
void OnJoin(CoordinatorState& state, ConnectionId from, const wire::Join& join);
// The view in force is known again: judges the processes that have joined meanwhile.
void JudgeAllWhoWait(CoordinatorState& state);

}  // namespace byteps::protocol
