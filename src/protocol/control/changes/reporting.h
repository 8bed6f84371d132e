// Functions over the whole state of the coordinator, for members that report which view they hold
// and what they have promised. They report when they are connected again or were asked. A report
// may show that this coordinator knows less than the members do, because it was restarted or
// superseded. Otherwise the coordinator brings the member up to date.
#pragma once

#include "src/protocol/control/changes/state.h"
#include "src/protocol/control/members/roster.h"
#include "src/wire/membership.h"

namespace byteps::protocol {

void OnReport(CoordinatorState& state, ConnectionId from, const wire::Report& report);
// Tells a worker that the others went on without it, when the job is over. For this worker the job
// has not ended in order.
void TellIfLeftBehind(const CoordinatorState& state, ConnectionId from, const wire::Report& report);

}  // namespace byteps::protocol
