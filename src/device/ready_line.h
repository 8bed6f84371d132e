// ReadyLine: tells when users' streams have reached their marks.
//
// A stream's marks are waited for in order. There are at most kThreadsMax threads, which begin when
// they are needed. All but one wait for one stream at a time. If more streams wait, the last thread
// asks them in turn, because the driver cannot wait for the first one of several.
//
// Thread-safe. The functions that callers hand in run on the line's threads, under no lock, and
// must not throw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/device/device.h"
#include "src/device/line_threads.h"

namespace byteps::device {

class ReadyLine {
 public:
  using Reached = std::function<void(const Status&)>;
  static constexpr size_t kThreadsMax = 4;

  // The pointer is shared, because a thread that stands still in the driver outlives the line.
  explicit ReadyLine(std::shared_ptr<Device> device, Duration end_limit = LineThreads::kEndLimit);
  // Blocks at most for the limit. REQUIRES: each owner has been told or has called
  // off.
  ~ReadyLine();
  ReadyLine(const ReadyLine&) = delete;
  ReadyLine& operator=(const ReadyLine&) = delete;

  // Calls `reached` once, when the stream has reached the mark, or with the reason why it never
  // will; not at all if the owner calls off. Does not block. kExhausted: the system has no thread
  // for it, and nothing was accepted. Throws std::bad_alloc; then nothing was accepted either.
  // REQUIRES: no other mark of the owner is waited for.
  Status Await(uint64_t owner, void* stream, std::unique_ptr<Mark> mark, Reached reached);

  // Returns true if `reached` of the owner has not begun and never will. Does not block.
  bool CallOff(uint64_t owner);

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the threads
  Mutex threads_mutex_;
  LineThreads threads_ BYTEPS_GUARDED_BY(threads_mutex_);
};

}  // namespace byteps::device
