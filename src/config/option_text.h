// Writes the rows for people: the docs page, --help, the start-up line.
#pragma once

#include <string>

#include "src/base/types.h"
#include "src/config/options.h"

namespace byteps::config {

// Returns the whole of docs/environment.md. The file is committed; a test compares it with this
// text.
std::string OptionsPage();

// Returns the options of one role as the flags that ParseArguments reads, for --help.
std::string FlagsHelp(Role role);

// Returns a line VARIABLE=value for every option that the role of `options` reads; a comment behind
// the value marks a default. Masks secrets. A shell can read all lines but masked ones.
std::string ConfigText(const Options& options);

// Returns "num_worker=2, job_secret=***": every option whose value is not the default. Masks
// secrets. Returns an empty text if there is none.
std::string DescribeNonDefaults(const Options& options);

}  // namespace byteps::config
