// Makes a script that breaks a rule smaller while it still breaks one, so that a person can read
// the rest.
#pragma once

#include <vector>

#include "sim/scenario.h"
#include "sim/script.h"

namespace byteps::sim {

// Returns scripts that differ from this one in one way, the largest cuts first.
std::vector<Script> SmallerScripts(const Script& script);

// Returns a smallest script near the one of `options` that still breaks a rule: each script that
// SmallerScripts makes of it passes. REQUIRES: RunScenario(options) finds a violation.
Script Shrink(ScenarioOptions options);

}  // namespace byteps::sim
