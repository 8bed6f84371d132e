// Time enters the state machines as a value, from a real or a virtual clock.
#pragma once

#include <chrono>

namespace byteps {

// Nanoseconds since an arbitrary start that is the same for one machine (or one simulation).
using Duration = std::chrono::nanoseconds;
using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double ToSeconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace byteps
