// Lock rules that clang's -Wthread-safety checks (other compilers ignore them), and the Mutex they
// apply to: std::mutex carries no annotations in libstdc++.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define BYTEPS_ANNOTATION(x) __attribute__((x))
#else
#define BYTEPS_ANNOTATION(x)
#endif

#define BYTEPS_CAPABILITY(x) BYTEPS_ANNOTATION(capability(x))
#define BYTEPS_SCOPED_CAPABILITY BYTEPS_ANNOTATION(scoped_lockable)
#define BYTEPS_GUARDED_BY(x) BYTEPS_ANNOTATION(guarded_by(x))
#define BYTEPS_REQUIRES(...) BYTEPS_ANNOTATION(requires_capability(__VA_ARGS__))
#define BYTEPS_ACQUIRE(...) BYTEPS_ANNOTATION(acquire_capability(__VA_ARGS__))
#define BYTEPS_RELEASE(...) BYTEPS_ANNOTATION(release_capability(__VA_ARGS__))
#define BYTEPS_EXCLUDES(...) BYTEPS_ANNOTATION(locks_excluded(__VA_ARGS__))
#define BYTEPS_NO_THREAD_SAFETY_ANALYSIS BYTEPS_ANNOTATION(no_thread_safety_analysis)

namespace byteps {

class BYTEPS_CAPABILITY("mutex") Mutex {
 public:
  void Lock() BYTEPS_ACQUIRE() { mutex_.lock(); }
  void Unlock() BYTEPS_RELEASE() { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a Mutex for a scope, and waits for a condition variable under it.
class BYTEPS_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) BYTEPS_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() BYTEPS_RELEASE() = default;

  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Wait(std::condition_variable& changed) { changed.wait(lock_); }

  // Returns false if the deadline passed first; spurious wake-ups return true.
  template <typename TimePoint>
  bool WaitUntil(std::condition_variable& changed, TimePoint deadline) {
    return changed.wait_until(lock_, deadline) == std::cv_status::no_timeout;
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace byteps
