// The command line of the executables, which has a flag for each row.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"

namespace byteps::config {

struct Arguments {
  bool help = false;
  bool version = false;
  bool print_config = false;          // and not start anything
  std::vector<std::string> settings;  // for LoadOptions; "role=..." is the first one
};

// Reads what follows the program's name. Flags are "--name value" or "--name=value", with '_' or
// '-' between words, for every option that `role` reads, except secret ones and the role itself.
// `--print-config ROLE` puts that role in place of `role` into the settings.
// kInvalidArgument names the argument that does not fit; values are checked by LoadOptions.
Result<Arguments> ParseArguments(Role role, std::span<const char* const> arguments);

}  // namespace byteps::config
