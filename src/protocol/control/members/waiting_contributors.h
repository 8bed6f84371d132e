// Which of the workers that wait form one contributor, and whether all of its processes are here:
// it is let in as a whole, or not at all. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/protocol/control/members/roster.h"

namespace byteps::protocol {

struct WaitingContributor {
  std::string key;    // empty: one process by itself
  uint32_t size = 1;  // how many processes it has, by the word of those that are here
  std::vector<const Member*> processes;

  bool meets = false;  // some have still to meet: it is not whole, but lacks nobody for certain

  bool IsWhole() const { return processes.size() == size && !meets; }
};

// In the order in which the first process of each came; its processes by their
// local rank: who is the first on its machine has the lowest rank, and so is the carrier.
std::vector<WaitingContributor> WaitingContributors(const Roster& roster);

// "node-7 lacks 1 of its 2 processes". REQUIRES: it is not whole and does not meet.
std::string LackOf(const WaitingContributor& one);

bool AnyWhole(const std::vector<WaitingContributor>& waiting);
// Processes of those that are whole.
uint32_t CountWhole(const std::vector<WaitingContributor>& waiting);

}  // namespace byteps::protocol
