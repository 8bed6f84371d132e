// The options of a coordinator, and the surroundings of its desks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/time.h"
#include "src/protocol/control/members/coordinator_driver.h"
#include "src/protocol/control/members/listening_clock.h"
#include "src/protocol/control/views/coordinator_rules.h"

namespace byteps::protocol {

struct CoordinatorOptions {
  // The number of worker machines, as this process was told. The workers' own word on the number of
  // ranks per machine completes it: worker_count is a multiple of worker_machines if machines are
  // equal.
  uint32_t worker_machines = 1;
  // The workers of each machine, as MachineLayout::sizes, if this process was told; otherwise
  // empty.
  std::vector<uint32_t> local_sizes;
  uint32_t server_count = 1;
  std::string version;
  // The job goes on while it has this many workers. 0: it needs all workers, so the loss of one
  // ends it, and no worker is let in while it runs.
  uint32_t min_workers = 0;
  // Two coordinators may be alive at once, because nobody vouches that a restart is the only one.
  bool strict = false;
  // Tells coordinators apart that have one term, and the jobs that they found. It is random and
  // differs for each process.
  uint32_t nonce = 0;

  Duration start_timeout = seconds(120);
  // The time until the first report of the missing members; later reports come at ever longer
  // intervals. The coordinator's own driver also hears it each `show_every`; zero: it hears only
  // the reports.
  Duration report_every = seconds(5);
  Duration show_every{};
  // The time in which one closed connection may come back.
  Duration grace = milliseconds(100);
  // A member that has said nothing for this long is lost; 0: never. `silence_end` holds for a
  // member whose loss ends the job or leaves it without servers, because hurry gains nothing there.
  Duration silence_evict = milliseconds(900);
  Duration silence_end = seconds(5);
  // The time for which the job waits for a server when none is left, for promises, and for reports.
  Duration server_patience = seconds(10);
  Duration quorum_patience = seconds(10);
  Duration recovery_patience = seconds(10);
  // The time from the first word that ranks may be stuck in a circle to the verdict. All ranks of
  // the circle have spoken then.
  Duration judge_after = milliseconds(500);
  // When an operation has been open for so long, and again after each such time, the coordinator
  // reports the ranks that have not come to it; zero: it reports nothing.
  Duration stall_after = seconds(60);
  // The measurements of the links are judged when each worker has measured for so long; 0: never.
  Duration links_measurement = milliseconds(200);

  // Never null; it outlives the coordinator.
  const CoordinatorRules* rules = &kCoordinatorRules;
};

// The things around a desk, which a coordinator hands to it. They outlive the desk.
struct Surroundings {
  const CoordinatorOptions& options;
  CoordinatorDriver& driver;
  const ListeningClock& clock;
};

}  // namespace byteps::protocol
