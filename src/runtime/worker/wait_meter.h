// Measures the time in which at least one thread of the user waits for an operation.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "src/base/thread_annotations.h"
#include "src/base/time.h"

namespace byteps::runtime {

class WaitMeter {
 public:
  // Someone waits as long as it lives.
  class Scope {
   public:
    explicit Scope(std::shared_ptr<WaitMeter> meter) : meter_(std::move(meter)) {
      meter_->Begin(std::chrono::steady_clock::now());
    }
    ~Scope() { meter_->End(std::chrono::steady_clock::now()); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const std::shared_ptr<WaitMeter> meter_;
  };

  void Begin(Time now) {
    MutexLock lock(mutex_);
    if (waiting_++ == 0) since_ = now;
  }
  // REQUIRES: one call for each Begin.
  void End(Time now) {
    MutexLock lock(mutex_);
    if (--waiting_ == 0) waited_ += now - since_;
  }
  // Returns the time in which someone has waited until `now`.
  Duration Waited(Time now) {
    MutexLock lock(mutex_);
    return waiting_ == 0 ? waited_ : waited_ + (now - since_);
  }

 private:
  Mutex mutex_;
  uint32_t waiting_ BYTEPS_GUARDED_BY(mutex_) = 0;
  Time since_ BYTEPS_GUARDED_BY(mutex_){};
  Duration waited_ BYTEPS_GUARDED_BY(mutex_){};
};

}  // namespace byteps::runtime
