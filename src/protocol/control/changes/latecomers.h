// Tells workers that wait while the job runs what they wait for: once, and again when that changes.
// Processes of a worker's contributor may be missing. Then the processes that are here have come
// too early for the others, or the job began without them.
//
// One thread; no I/O: the driver sends.
#pragma once

#include <map>
#include <string>

#include "src/protocol/control/changes/gathering.h"
#include "src/protocol/control/members/coordinator_driver.h"
#include "src/protocol/control/members/roster.h"
#include "src/protocol/control/views/views.h"

namespace byteps::protocol {

class Latecomers {
 public:
  // The arguments outlive the object.
  Latecomers(CoordinatorDriver& driver, const Roster& roster, const Views& views,
             const Gathering& gathering)
      : driver_(driver), roster_(roster), views_(views), gathering_(gathering) {}

  // Tells the workers. Call it after everything that may have changed something.
  void Tell();

 private:
  CoordinatorDriver& driver_;
  const Roster& roster_;
  const Views& views_;
  const Gathering& gathering_;
  std::map<ConnectionId, std::string> told_;  // the latest text
};

}  // namespace byteps::protocol
