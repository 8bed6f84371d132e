// Everything that the coordinator knows of the processes of a job.
#pragma once

#include "src/base/time.h"
#include "src/protocol/control/members/departures.h"
#include "src/protocol/control/members/process_ends.h"
#include "src/protocol/control/members/roster.h"
#include "src/protocol/control/members/suspicions.h"

namespace byteps::protocol {

// Four values that belong together. A desk that only reads them takes them as const. A desk that
// changes some of them names these in its header.
struct JobMembers {
  // `grace`: the time in which a closed connection may come back.
  explicit JobMembers(Duration grace) : suspicions(grace) {}

  Roster roster;          // processes that are connected
  Departures departures;  // members that are on their way out
  ProcessEnds ends;       // processes that a launcher has seen end
  Suspicions suspicions;  // members that may be lost
};

}  // namespace byteps::protocol
