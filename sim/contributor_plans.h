// Contributors of several processes, and faults of single processes.
#pragma once

#include <cstdint>
#include <string>

#include "sim/faults.h"
#include "sim/script.h"

namespace byteps::sim {

// Rolls whether and how workers are contributors of several processes, and which processes the
// script's faults hit. Half of these scripts get a history of their own instead. It has dice of its
// own, so that the seeds of single processes keep their schedules.
void RollContributors(uint64_t seed, FaultScript& script);

// Does the same for a script of one accident, whose process sets still name workers.
void RollContributors(uint64_t seed, Script& script);

std::string DescribeContributors(const ClusterOptions& cluster);

}  // namespace byteps::sim
