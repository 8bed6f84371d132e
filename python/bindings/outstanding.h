#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace byteps::python {

// Counts operations that a framework's engine has and will end. Any thread.
class Outstanding {
 public:
  void Add() {
    const std::scoped_lock lock(mutex_);
    ++count_;
  }

  void Remove() {
    const std::scoped_lock lock(mutex_);
    --count_;
    changed_.notify_all();
  }

  // Blocks until there are fewer than now, or none, at most for `limit`. Returns how many there
  // are.
  int64_t WaitForFewer(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    const int64_t before = count_;
    changed_.wait_for(lock, limit, [&] { return count_ == 0 || count_ < before; });
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t count_ = 0;
};

}  // namespace byteps::python
