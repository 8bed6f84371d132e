// Texts for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/base/time.h"

namespace byteps {

// Returns at most the first `bytes_max` bytes of a text in UTF-8, and cuts no character in two. The
// result borrows from `text`.
std::string_view CutText(std::string_view text, size_t bytes_max);

// Returns "0, 1, 5", or "0, 1 and 7 more" if there are more than `shown_max`.
std::string ListText(std::span<const uint32_t> numbers, size_t shown_max = 16);

// Returns "12 s"; leaves out parts of a second.
std::string SecondsText(Duration duration);
// Returns "12 s", or "60 ms" if there are parts of a second.
std::string DurationText(Duration duration);

}  // namespace byteps
