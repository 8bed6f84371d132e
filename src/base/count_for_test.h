// Counts what happens on other threads, and waits for it.
#pragma once

#include <chrono>
#include <condition_variable>

#include "src/base/thread_annotations.h"

namespace byteps {

// The longest wait of a test, long enough for sanitizers on a busy machine.
inline constexpr auto kPatience = std::chrono::seconds(60);

// Thread-safe.
class Count {
 public:
  void Add() {
    MutexLock lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  int now() {
    MutexLock lock(mutex_);
    return count_;
  }
  // Returns whether there were `count` in time.
  bool Reaches(int count, std::chrono::milliseconds limit = kPatience) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    MutexLock lock(mutex_);
    while (count_ < count) {
      if (!lock.WaitUntil(changed_, deadline)) return count_ >= count;
    }
    return true;
  }

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  int count_ BYTEPS_GUARDED_BY(mutex_) = 0;
};

}  // namespace byteps
