// The modelled rate of a device's link to the host: a token bucket for each direction. It only
// makes copies slower than those of the host's memory are; it says nothing of a real GPU.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <thread>

#include "tests/cuda_standin/standin.h"

namespace byteps::standin {

// Thread-safe.
class LinkRates {
 public:
  using Clock = std::chrono::steady_clock;
  // A copy that is so much ahead of the rate does not wait, because sleeping takes longer.
  static constexpr std::chrono::microseconds kAhead{200};

  void Set(double bytes_per_second) {
    std::lock_guard lock(mutex_);
    bytes_per_second_ = bytes_per_second;
    for (auto& device : free_at_) std::fill(std::begin(device), std::end(device), Clock::now());
  }
  // Blocks as long as the link needs for the bytes. `begun`: when the copy began.
  void Pass(int device, bool is_up, size_t bytes, Clock::time_point begun) {
    Clock::time_point over;
    {
      std::lock_guard lock(mutex_);
      if (bytes_per_second_ <= 0) return;
      const std::chrono::duration<double> time(static_cast<double>(bytes) / bytes_per_second_);
      Clock::time_point& free_at = free_at_[device][is_up ? 1 : 0];
      free_at = std::max(free_at, begun) + std::chrono::duration_cast<Clock::duration>(time);
      over = free_at;
    }
    // tidy-allow(sleep): the link of a GPU takes this time.
    if (over > Clock::now() + kAhead) std::this_thread::sleep_until(over);
  }

 private:
  std::mutex mutex_;
  double bytes_per_second_ = 0;  // 0: as fast as memory
  Clock::time_point free_at_[STAND_IN_DEVICES][2];
};

}  // namespace byteps::standin
