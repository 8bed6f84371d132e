// Launchers of other systems, which start several processes and describe no job of ours: then each
// of them would train alone, and nobody would notice.
#pragma once

#include <optional>
#include <string>

#include "src/config/environment.h"

namespace byteps::config {

// Why this process must not be a job of its own, and what to do; nothing when no other launcher has
// started it as one of several.
// REQUIRES: the environment and the settings say nothing about the size of the job.
std::optional<std::string> WhyNotAlone(const Environment& environment);

}  // namespace byteps::config
