// Text helpers of this folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/types.h"

namespace byteps::config {

// Returns the text without the white space around it.
std::string_view Trim(std::string_view text);

std::string LowerCase(std::string_view text);

// Returns the parts of "a, b, c", trimmed; none for an empty text.
std::vector<std::string_view> SplitList(std::string_view text);

// Returns the role's name in the environment contract.
std::string_view RoleName(Role role);

}  // namespace byteps::config
