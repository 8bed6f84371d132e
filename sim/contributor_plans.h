// Contributors of several processes, and what befalls these one by one.
#pragma once

#include <cstdint>
#include <string>

#include "sim/faults.h"
#include "sim/script.h"

namespace byteps::sim {

// Rolls whether and how workers are contributors of several processes, and whom the script's faults
// hit of them; half of these scripts get a history of their own instead. With dice of their own, so
// that seeds of single processes play what they played.
void RollContributors(uint64_t seed, FaultScript& script);

// The same for a script of one accident, whose process sets go on to name workers.
void RollContributors(uint64_t seed, Script& script);

std::string DescribeContributors(const ClusterOptions& cluster);

}  // namespace byteps::sim
