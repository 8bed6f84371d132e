// What the tests of this folder share.
#pragma once

#include <chrono>

#include "src/base/time.h"

namespace byteps::local {

// For waits that must end in vain, and for those that must not.
inline constexpr Duration kSoon = milliseconds(100);
inline constexpr Duration kLong = seconds(60);

inline Time In(Duration duration) { return std::chrono::steady_clock::now() + duration; }

}  // namespace byteps::local
