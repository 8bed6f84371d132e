// Deliberate mistakes by name. docs/membership.md numbers those of the failure protocol.
#pragma once

#include <string>
#include <vector>

#include "sim/cluster.h"

namespace byteps::sim {

// REQUIRES: one of MistakeNames().
Mistakes MistakeNamed(const std::string& name);
std::vector<std::string> MistakeNames();
// Those of the failure protocol.
std::vector<std::string> FaultMistakeNames();

}  // namespace byteps::sim
