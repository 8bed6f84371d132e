// Checks that the options of one process fit together.
#pragma once

#include <set>
#include <string_view>

#include "src/base/status.h"
#include "src/config/options.h"

namespace byteps::config {

// Names of the options that the environment or a setting has given.
using GivenOptions = std::set<std::string_view>;

// Returns Ok, or kInvalidArgument. The error names all options that the role lacks, or the first
// pair of values that contradict each other.
Status CheckOptions(const Options& options, const GivenOptions& given);

}  // namespace byteps::config
