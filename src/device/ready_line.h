// ReadyLine: tells when users' streams have reached their marks.
//
// A stream's marks are waited for in order. A thread waits for one stream at a time, and there are
// at most kThreadsMax threads, which begin when they are needed. If more streams wait, the later
// ones hear late.
//
// Thread-safe. The functions that callers hand in run on the line's threads, under no lock.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/device/device.h"

namespace byteps::device {

class ReadyLine {
 public:
  using Reached = std::function<void(const Status&)>;
  static constexpr size_t kThreadsMax = 4;

  // The device must outlive the line.
  explicit ReadyLine(Device& device) : device_(device) {}
  // Blocks until the marks for which threads wait are reached. REQUIRES: each owner has been told
  // or has called off.
  ~ReadyLine();
  ReadyLine(const ReadyLine&) = delete;
  ReadyLine& operator=(const ReadyLine&) = delete;

  // Calls `reached` once, when the stream has reached the mark, or with the reason why it never
  // will; not at all if the owner calls off. Does not block. kExhausted: the system has no thread
  // for it, and nothing was accepted. REQUIRES: no other mark of the owner is waited for.
  Status Await(uint64_t owner, void* stream, std::unique_ptr<Mark> mark, Reached reached);

  // Returns true if `reached` of the owner has not begun and never will. Does not block.
  bool CallOff(uint64_t owner);

 private:
  struct Entry {
    uint64_t owner;
    std::unique_ptr<Mark> mark;
    Reached reached;
  };
  struct Queue {
    std::deque<Entry> entries;
    bool is_held = false;  // by a thread, which waits for the first mark
  };

  void Run();
  size_t FreeQueues() const BYTEPS_REQUIRES(mutex_);
  Queue* FreeQueue() BYTEPS_REQUIRES(mutex_);

  Device& device_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::map<void*, Queue> queues_ BYTEPS_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ BYTEPS_GUARDED_BY(mutex_);
  size_t idle_ BYTEPS_GUARDED_BY(mutex_) = 0;
  bool ends_ BYTEPS_GUARDED_BY(mutex_) = false;
};

}  // namespace byteps::device
