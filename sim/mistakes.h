// Deliberate mistakes by name. docs/membership.md numbers the mistakes of the failure protocol.
#pragma once

#include <string>
#include <vector>

#include "sim/cluster.h"

namespace byteps::sim {

// REQUIRES: one of MistakeNames().
Mistakes MistakeNamed(const std::string& name);
std::vector<std::string> MistakeNames();
// Returns the names of the failure protocol's mistakes.
std::vector<std::string> FaultMistakeNames();

}  // namespace byteps::sim
