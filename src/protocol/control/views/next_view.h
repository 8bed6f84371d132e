// What the next view is, from the view in force, who is connected, and who is going. Pure
// functions; the coordinator proposes what they make.
#pragma once

#include <cstdint>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/protocol/control/members/departures.h"
#include "src/protocol/control/members/roster.h"
#include "src/protocol/control/views/coordinator_rules.h"
#include "src/wire/control.h"

namespace byteps::protocol {

// The first view of a generation, with all contributors that wait and are whole; the slot of each
// is its lowest rank. `present`: epoch 0 before the first one, in which everything is new; later
// generations begin with the servers that are left. Ranks below `worker_count` that it begins
// without are laid out like those that it loses later. REQUIRES: all who wait have an index.
wire::View FirstOfGeneration(const wire::View& present, const Roster& roster,
                             const Departures& departures, uint32_t worker_count);

// These change `next`, a copy of the view in force, step by step into what follows it.

// Takes out workers that are lost, and those that leave, if the job goes on with the others. A job
// that does not go on without them keeps them, so that operations which need them fail; and so does
// a contributor until all of its processes leave.
void DropWorkers(wire::View& next, const Roster& roster, const Departures& departures, bool goes_on,
                 const CoordinatorRules& rules);
// Lost servers are dead from `epoch` on; servers that wait take the places they were given.
void PlaceServers(wire::View& next, const Roster& roster, const Departures& departures,
                  uint64_t epoch);
// A generation begins in `epoch` with the workers of `next` and with those contributors that wait
// and are whole: each gets a slot of its own, from `slot` on, and each process the rank it asks for
// or the lowest free one.
void AdmitWorkers(wire::View& next, const Roster& roster, Slot slot, uint64_t epoch);

// Gives every shard its share of the bytes, from the links of the hosts that were declared. Pieces
// are dealt by it, and none is moved.
Status Weigh(wire::View& view, const Roster& roster);

bool AnyServer(const wire::View& view);
bool AllWorkersLeft(const wire::View& view);

}  // namespace byteps::protocol
