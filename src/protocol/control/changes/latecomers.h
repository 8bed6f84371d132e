// Workers that wait while the job runs: each is told what it waits for, once, and again when that
// is something else. It may be that processes of its contributor are missing: those that are here
// have come too early for the others, or were left out when the job began without them.
// One thread; no I/O: what is to be said goes through the driver.
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
  // What it reads, and through what it speaks.
  Latecomers(CoordinatorDriver& driver, const Roster& roster, const Views& views,
             const Gathering& gathering)
      : driver_(driver), roster_(roster), views_(views), gathering_(gathering) {}

  // After everything that may have changed something.
  void Tell();

 private:
  CoordinatorDriver& driver_;
  const Roster& roster_;
  const Views& views_;
  const Gathering& gathering_;
  std::map<ConnectionId, std::string> told_;  // the latest
};

}  // namespace byteps::protocol
