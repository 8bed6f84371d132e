// Modelled rates of links: a token bucket for each direction. They only make copies slower than
// those of the host's memory are; they say nothing of a real GPU.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <thread>

#include "tests/cuda_standin/standin.h"

namespace byteps::standin {

// The link of each device of this process, and one to the host that all of them may share, like
// that of a PCI switch. Thread-safe.
class LinkRates {
 public:
  using Clock = std::chrono::steady_clock;
  // A copy that is so much ahead of the rate does not wait, because sleeping takes longer.
  static constexpr std::chrono::microseconds kAhead{200};
  // All that passes a link takes turns of this size, as on a bus that serves each of them alike.
  static constexpr size_t kTurn = 64 << 10;

  // 0: as fast as memory.
  void Set(double bytes_per_second) {
    std::lock_guard lock(mutex_);
    for (Link& link : devices_) link.Set(bytes_per_second);
  }
  void SetShared(double bytes_per_second) {
    std::lock_guard lock(mutex_);
    shared_.Set(bytes_per_second);
  }
  // Blocks as long as a copy to the host or from it takes. `begun`: when the copy began.
  void Pass(int device, bool is_up, size_t bytes, Clock::time_point begun) {
    for (Way way{bytes, begun}; way.left > 0; WaitUntil(way.over)) {
      std::lock_guard lock(mutex_);
      const size_t turn = way.Turn();
      way.over = std::max(devices_[device].Take(is_up, turn, way.over),
                          shared_.Take(is_up, turn, way.over));
    }
  }
  // Blocks as long as the device needs to send to other devices, and to receive from them. Neither
  // waits for the other: devices have room for bytes on the way.
  void PassPeers(int device, size_t sent, size_t received, Clock::time_point begun) {
    Way down{sent, begun};
    Way up{received, begun};
    while (down.left + up.left > 0) {
      const bool is_up = down.left == 0 || (up.left > 0 && up.over < down.over);
      Way& next = is_up ? up : down;
      WaitUntil(next.over);
      std::lock_guard lock(mutex_);
      next.over = devices_[device].Take(is_up, next.Turn(), next.over);
    }
    WaitUntil(std::max(down.over, up.over));
  }

 private:
  // A way in one direction: the bytes that have not passed, and when the last turn is over.
  struct Way {
    size_t Turn() {
      const size_t turn = std::min(left, kTurn);
      left -= turn;
      return turn;
    }
    size_t left = 0;
    Clock::time_point over;
  };
  struct Link {
    void Set(double rate) {
      bytes_per_second = rate;
      std::fill(std::begin(free_at), std::end(free_at), Clock::now());
    }
    // Returns when the bytes have passed.
    Clock::time_point Take(bool is_up, size_t bytes, Clock::time_point begun) {
      if (bytes_per_second <= 0) return begun;
      const std::chrono::duration<double> time(static_cast<double>(bytes) / bytes_per_second);
      Clock::time_point& free = free_at[is_up ? 1 : 0];
      free = std::max(free, begun) + std::chrono::duration_cast<Clock::duration>(time);
      return free;
    }
    double bytes_per_second = 0;
    Clock::time_point free_at[2];
  };
  static void WaitUntil(Clock::time_point over) {
    // tidy-allow(sleep): the link of a GPU takes this time.
    if (over > Clock::now() + kAhead) std::this_thread::sleep_until(over);
  }

  std::mutex mutex_;
  Link devices_[STAND_IN_DEVICES];
  Link shared_;
};

}  // namespace byteps::standin
