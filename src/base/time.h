// Time enters the state machines as a value, from a real or a virtual clock.
#pragma once

#include <chrono>

namespace byteps {

// A Time counts nanoseconds since an arbitrary start, which is the same for all of one machine (or
// one simulation).
using Duration = std::chrono::nanoseconds;
using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double ToSeconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace byteps
