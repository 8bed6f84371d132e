// What the rows look like to people: the docs page, --help, the start-up line.
#pragma once

#include <string>

#include "src/base/types.h"
#include "src/config/options.h"

namespace byteps::config {

// The whole of docs/environment.md. The file is committed; a test compares it with this text.
std::string OptionsPage();

// The options of one role as the flags that ParseArguments reads, for --help.
std::string FlagsHelp(Role role);

// A line VARIABLE=value for every option that the role of `options` reads; a comment behind it
// marks defaults. Without comments and secrets, which are masked, a shell can read it.
std::string ConfigText(const Options& options);

// "num_worker=2, job_secret=***": every option whose value is not the default. Secrets are masked.
// Empty when there is none.
std::string DescribeNonDefaults(const Options& options);

}  // namespace byteps::config
