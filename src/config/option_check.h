// What the options of one process must say together.
#pragma once

#include <set>
#include <string_view>

#include "src/base/status.h"
#include "src/config/options.h"

namespace byteps::config {

// Names of the options that the environment or a setting has given.
using GivenOptions = std::set<std::string_view>;

// Ok, or kInvalidArgument: one text with all that is missing for the role, or the first pair of
// values that contradict each other.
Status CheckOptions(const Options& options, const GivenOptions& given);

}  // namespace byteps::config
