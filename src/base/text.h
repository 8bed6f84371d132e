// Texts for people.
#pragma once

#include <cstddef>
#include <string_view>

namespace byteps {

// The first `bytes_max` bytes of a text in UTF-8 or less: none of its characters is cut in two. The
// result borrows from `text`.
std::string_view CutText(std::string_view text, size_t bytes_max);

}  // namespace byteps
