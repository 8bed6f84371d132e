// CopyLine: copies between host and device in one direction, in order, on a thread and a stream of
// its own.
//
// Takes the copies that there are, at most kBatchCopies or kBatchBytes, begins them, and waits for
// the batch before them. So two batches are under way while there is enough to do. Neighbours in
// both memories become one copy.
//
// Thread-safe. The functions that callers hand in run on the line's thread, under no lock.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/device/device.h"

namespace byteps::device {

class CopyLine {
 public:
  using Done = std::function<void(const Status&)>;
  static constexpr size_t kBatchCopies = 32;
  static constexpr size_t kBatchBytes = size_t{2} << 20;

  // Starts the thread. The device must outlive the line.
  explicit CopyLine(Device& device);
  // Blocks until all copies have ended.
  ~CopyLine();
  CopyLine(const CopyLine&) = delete;
  CopyLine& operator=(const CopyLine&) = delete;

  // Does not block. Calls `done` once when the bytes are there, or with the reason why they are
  // not; not at all for a copy that was called off. REQUIRES: both memories stay until then.
  void Copy(uint64_t owner, std::byte* to, const std::byte* from, size_t bytes, Done done);

  // Drops the owner's copies that have not begun. Calls `over` when nothing of the owner touches
  // its memory any more: inside this call if no copy of the owner is under way. The line begins no
  // `done` of the owner's copies from now on. Does not block.
  void CallOff(uint64_t owner, std::function<void()> over);

 private:
  struct Job {
    uint64_t owner;
    std::byte* to;
    const std::byte* from;
    size_t bytes;
    Done done;
    bool off = false;  // guarded by mutex_
    Status status;
  };
  struct CalledOff {
    uint64_t owner;
    std::function<void()> over;
  };
  using Batch = std::vector<Job>;

  void Run();
  Status Prepare(std::unique_ptr<CopyStream>& stream);
  bool TakeJobs(Batch& batch, bool under_way);
  static void Begin(Batch& batch, int number, CopyStream& stream);
  void Finish(int number, CopyStream* stream);
  bool IsUnderWay(uint64_t owner) const BYTEPS_REQUIRES(mutex_);

  Device& device_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_ BYTEPS_GUARDED_BY(mutex_);
  // The thread changes a batch under the mutex, and reads its own batches without it.
  Batch batches_[CopyStream::kBatches];
  std::vector<CalledOff> called_off_ BYTEPS_GUARDED_BY(mutex_);
  bool ends_ BYTEPS_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace byteps::device
