// Coordinators and memberships on queues, driven by a seed. Messages come in any order between
// connections. Coordinators stop at any step and are restarted. Members crash, are suspected
// wrongly, join and reconnect.
//
// No two living processes may ever hold different views under one epoch, or be members of two jobs.
// A generation may begin only for workers that are at a sync point. A view has all processes of a
// contributor or none.
#pragma once

#include <cstdint>
#include <string>

#include "src/protocol/control/views/coordinator_mistakes_for_test.h"
#include "src/protocol/control/views/membership_mistakes_for_test.h"

namespace byteps::protocol {

struct WorldRules {
  bool strict = false;  // strict also means two coordinators at a time
  bool pairs = false;  // every two workers are one contributor; otherwise only in half of the seeds
  CoordinatorMistake coordinator = CoordinatorMistake::kNone;
  MembershipMistake membership = MembershipMistake::kNone;
};

struct WorldResult {
  std::string wrong;    // the fault that was found, or nothing
  bool over = false;    // the job has ended
  bool stuck = false;   // the coordinator never stops asking what was decided
  uint64_t epochs = 0;  // how often the view changed
};
WorldResult RunWorld(uint64_t seed, const WorldRules& rules, int steps);

}  // namespace byteps::protocol
