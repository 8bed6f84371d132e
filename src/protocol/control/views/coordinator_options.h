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
  // What this process was told; the workers' own word on the number of ranks per machine completes
  // it: worker_count is a multiple of worker_machines if machines are equal.
  uint32_t worker_machines = 1;
  // The workers of each machine, as MachineLayout::sizes, if this process was told; else nothing.
  std::vector<uint32_t> local_sizes;
  uint32_t server_count = 1;
  std::string version;
  // The job goes on while it has this many workers; 0 = all: losing one ends it, and workers are
  // not let in while it runs.
  uint32_t min_workers = 0;
  // Two coordinators may be alive at once: nobody vouches that a restart is the only one.
  bool strict = false;
  // Tells coordinators apart that have one term, and the jobs that they found: random, different
  // for each process.
  uint32_t nonce = 0;

  Duration start_timeout = seconds(120);
  // The first report of who is missing; later ones come more and more seldom. The own driver hears
  // it each `show_every`, too; zero: only then.
  Duration report_every = seconds(5);
  Duration show_every{};
  // How long one closed connection may take to come back.
  Duration grace = milliseconds(100);
  // A member that has said nothing for this long is lost; 0 = never. The second one holds where
  // losing it ends the job or leaves it without servers: nothing is gained by hurry.
  Duration silence_evict = milliseconds(900);
  Duration silence_end = seconds(5);
  // How long the job waits for a server when none is left, for promises, and for reports.
  Duration server_patience = seconds(10);
  Duration quorum_patience = seconds(10);
  Duration recovery_patience = seconds(10);
  // From the first word that ranks may be stuck in a circle to the verdict, which so has them all.
  Duration judge_after = milliseconds(500);
  // After an operation has been open for so long, and again each time: who has not come to it;
  // zero: nothing is said.
  Duration stall_after = seconds(60);
  // Workers' measurements of the links are judged when each has measured for so long; 0: never.
  Duration links_sample = milliseconds(200);

  // Never null; it outlives the coordinator.
  const CoordinatorRules* rules = &kCoordinatorRules;
};

// A coordinator hands these to each of its desks. They outlive the desk.
struct Surroundings {
  const CoordinatorOptions& options;
  CoordinatorDriver& driver;
  const ListeningClock& clock;
};

}  // namespace byteps::protocol
