// The contributors among the workers that wait. A contributor is let in as a whole or not at all,
// so this also says which of its processes are here. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/protocol/control/members/roster.h"

namespace byteps::protocol {

struct WaitingContributor {
  std::string key;    // empty: one process by itself
  uint32_t size = 1;  // the number of its processes, by the word of those that are here
  std::vector<const Member*> processes;

  bool meets = false;  // some processes have still to meet: it is not whole, but may lack nobody

  bool IsWhole() const { return processes.size() == size && !meets; }
};

// Returns the contributors in the order in which the first process of each came. Their processes
// stand in the order of their local ranks: the first process of a machine has the lowest rank, so
// it is the carrier.
std::vector<WaitingContributor> WaitingContributors(const Roster& roster);

// Returns for example "node-7 lacks 1 of its 2 processes". REQUIRES: the contributor is not whole
// and does not meet.
std::string LackOf(const WaitingContributor& one);

bool AnyWhole(const std::vector<WaitingContributor>& waiting);
// Counts the processes of the contributors that are whole.
uint32_t CountWhole(const std::vector<WaitingContributor>& waiting);

}  // namespace byteps::protocol
