// Helpers of the tests of this folder.
#pragma once

#include <chrono>

#include "src/base/time.h"

namespace byteps::local {

// Limits of waits: kSoon for waits that must end in vain, kLong for the others.
inline constexpr Duration kSoon = milliseconds(100);
inline constexpr Duration kLong = seconds(60);

inline Time In(Duration duration) { return std::chrono::steady_clock::now() + duration; }

}  // namespace byteps::local
