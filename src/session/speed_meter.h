// Counts the bytes that operations moved, in intervals of a fixed length. The steady clock measures
// the length, because somebody may set the other clock. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>

#include "src/base/thread_annotations.h"

namespace byteps::session {

class SpeedMeter {
 public:
  using Clock = std::chrono::steady_clock;
  struct Moment {
    Clock::time_point at;
    std::chrono::system_clock::time_point wall;  // for the end of an interval only
  };
  static Moment Now() { return {Clock::now(), std::chrono::system_clock::now()}; }

  static constexpr std::chrono::seconds kInterval{10};
  static constexpr size_t kIntervalsKept = 1024;

  struct Sample {
    uint64_t interval_ms = 0;  // 0: nothing has been counted
    double megabytes_per_second = 0;
    uint64_t end_ms_since_epoch = 0;
  };

  void Count(uint64_t bytes, const Moment& now);

  // Returns the oldest finished interval and forgets it. Without one, returns the present interval
  // so far.
  Sample Take(const Moment& now);

 private:
  void FinishInterval(const Moment& now) BYTEPS_REQUIRES(mutex_);

  Mutex mutex_;
  Clock::time_point begun_ BYTEPS_GUARDED_BY(mutex_){};
  uint64_t bytes_ BYTEPS_GUARDED_BY(mutex_) = 0;
  std::deque<Sample> finished_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::session
