// Launchers of other systems start several processes and do not describe a job of BytePS. Each of
// these processes would train alone, and nobody would notice.
#pragma once

#include <optional>
#include <string>

#include "src/config/environment.h"

namespace byteps::config {

// Returns why this process must not be a job of its own, and what to do. Returns nothing if no
// other launcher has started it as one of several. REQUIRES: the environment and the settings say
// nothing about the size of the job.
std::optional<std::string> WhyNotAlone(const Environment& environment);

}  // namespace byteps::config
