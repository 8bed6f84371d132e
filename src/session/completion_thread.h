// Tells users that their operations have ended, on a thread of its own, so that a user's function
// cannot hold up the threads that carry the job.
//
// Thread-safe. The thread begins with the first operation that has a completion.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"

namespace byteps::session {

using Handle = uint64_t;

// A user's function and its arguments. Made when the operation starts, so that the end needs no
// memory.
struct Completion {
  using Function = std::function<void(Handle handle, StatusCode code)>;

  Function function;
  Handle handle = 0;
  StatusCode code = StatusCode::kOk;
  std::unique_ptr<Completion> next;  // in the queue
};

class CompletionThread {
 public:
  CompletionThread() = default;
  // Blocks until all completions that were added have been called.
  ~CompletionThread();
  CompletionThread(const CompletionThread&) = delete;
  CompletionThread& operator=(const CompletionThread&) = delete;

  // Starts the thread, if it does not run yet. kExhausted: the system has none for this process.
  Status Start();

  // Makes the thread call the function, after all that were added before. Does not block and never
  // fails. REQUIRES: Start has succeeded.
  void Add(std::unique_ptr<Completion> completion) noexcept;

  // Blocks until all completions that were added before have been called. REQUIRES: not called from
  // a completion.
  void Drain();

  // Returns whether the calling thread is one of this class, of any session.
  static bool IsCurrentThread();

 private:
  void Run();

  Mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Completion> first_ BYTEPS_GUARDED_BY(mutex_);
  Completion* last_ BYTEPS_GUARDED_BY(mutex_) = nullptr;
  uint64_t added_ BYTEPS_GUARDED_BY(mutex_) = 0;
  uint64_t called_ BYTEPS_GUARDED_BY(mutex_) = 0;
  bool ending_ BYTEPS_GUARDED_BY(mutex_) = false;
  std::thread thread_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace byteps::session
