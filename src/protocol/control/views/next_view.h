// Makes the next view from the view in force, the connected processes and the members that go. Pure
// functions; the coordinator proposes what they make.
#pragma once

#include <cstdint>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/protocol/control/members/departures.h"
#include "src/protocol/control/members/roster.h"
#include "src/protocol/control/views/coordinator_rules.h"
#include "src/wire/view.h"

namespace byteps::protocol {

// Returns the first view of a generation, with all contributors that wait and are whole. The slot
// of each contributor is its lowest rank. If `present` has epoch 0, this is the first generation
// and everything in it is new. Later generations begin with the servers that are left. Ranks below
// `worker_count` that are missing at the beginning are laid out like ranks that the generation
// loses later. REQUIRES: all waiting processes have an index.
wire::View FirstOfGeneration(const wire::View& present, const Roster& roster,
                             const Departures& departures, uint32_t worker_count);

// The next functions change `next`, a copy of the view in force, step by step into the view that
// follows.

// Takes out lost workers. Takes out workers that leave, too, if the job goes on with the others. A
// job that does not go on without them keeps them, so that operations which need them fail. A
// contributor keeps them, too, until all of its processes leave.
void DropWorkers(wire::View& next, const Roster& roster, const Departures& departures, bool goes_on,
                 const CoordinatorRules& rules);
// Marks lost servers as dead from `epoch` on. Servers that wait take the places that they were
// given.
void PlaceServers(wire::View& next, const Roster& roster, const Departures& departures,
                  uint64_t epoch);
// Begins a generation in `epoch` with the workers of `next` and with the contributors that wait and
// are whole. Each new contributor gets a slot of its own, from `slot` on. Each of its processes
// gets the rank that it asks for, or the lowest free one.
void AdmitWorkers(wire::View& next, const Roster& roster, Slot slot, uint64_t epoch);

// Gives every shard its share of the bytes, by the links that the hosts have declared. New pieces
// are dealt by it, and no piece moves.
Status Weigh(wire::View& view, const Roster& roster);

bool AnyServer(const wire::View& view);
bool AllWorkersLeft(const wire::View& view);

}  // namespace byteps::protocol
