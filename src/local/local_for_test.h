// Helpers of the tests of this folder.
#pragma once

#include <chrono>

#include "src/base/time.h"

namespace byteps::local {

// Limits of waits: kSoon for waits that must end in vain, kLong for the others. By kSoon all that
// comes before such a wait has happened, also on a busy machine.
inline constexpr Duration kSoon = seconds(2);
inline constexpr Duration kLong = seconds(60);

inline Time In(Duration duration) { return std::chrono::steady_clock::now() + duration; }

}  // namespace byteps::local
