// Makes a script that breaks a rule smaller while it still breaks one, so that a person can read
// what is left.
#pragma once

#include <vector>

#include "sim/scenario.h"
#include "sim/script.h"

namespace byteps::sim {

// Scripts that differ from this one in a single thing, the boldest cuts first.
std::vector<Script> SmallerScripts(const Script& script);

// The smallest script near the one that `options` play which still breaks a rule: each script that
// SmallerScripts makes of it passes. REQUIRES: RunScenario(options) finds a violation.
Script Shrink(ScenarioOptions options);

}  // namespace byteps::sim
