// Texts for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/base/time.h"

namespace byteps {

// The first `bytes_max` bytes of a text in UTF-8 or less: none of its characters is cut in two. The
// result borrows from `text`.
std::string_view CutText(std::string_view text, size_t bytes_max);

// "0, 1, 5", or "0, 1 and 7 more" if there are more than `shown_max`.
std::string ListText(std::span<const uint32_t> numbers, size_t shown_max = 16);

// "12 s"; parts of a second are left out.
std::string SecondsText(Duration duration);

}  // namespace byteps
