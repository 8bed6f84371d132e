#include "src/device/line_threads.h"

#include <cassert>
#include <chrono>
#include <condition_variable>
#include <utility>

#include "src/base/thread_annotations.h"

namespace byteps::device {

struct LineThreads::Running {
  Mutex mutex;
  std::condition_variable changed;
  size_t count BYTEPS_GUARDED_BY(mutex) = 0;

  void Add(size_t more) {
    MutexLock lock(mutex);
    count += more;
    changed.notify_all();
  }
};

LineThreads::LineThreads(Duration end_limit)
    : end_limit_(end_limit), running_(std::make_shared<Running>()) {}

LineThreads::~LineThreads() { assert(threads_.empty()); }

void LineThreads::Start(std::function<void()> run) {
  threads_.reserve(threads_.size() + 1);
  auto counted = [running = running_, run = std::move(run)]() mutable {
    run();
    run = nullptr;
    running->Add(static_cast<size_t>(-1));
  };
  running_->Add(1);
  try {
    threads_.emplace_back(std::move(counted));
  } catch (...) {
    running_->Add(static_cast<size_t>(-1));
    throw;
  }
}

void LineThreads::End() {
  const Time deadline = std::chrono::steady_clock::now() + end_limit_;
  bool have_ended = false;
  {
    MutexLock lock(running_->mutex);
    while (running_->count > 0 && lock.WaitUntil(running_->changed, deadline)) {
    }
    have_ended = running_->count == 0;
  }
  for (std::thread& thread : threads_) {
    if (have_ended) {
      thread.join();
    } else {
      thread.detach();
    }
  }
  threads_.clear();
}

}  // namespace byteps::device
