// One operation that a user has started, and its outcome.
//
// Thread-safe. The session's table, the engine and waiting threads share it, and any of them may
// let go last. So a waiting thread needs no session.
#pragma once

#include <condition_variable>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/base/time.h"
#include "src/protocol/worker/exchange/operation.h"
#include "src/runtime/seeing/timeline_log.h"
#include "src/runtime/worker/wait_meter.h"
#include "src/session/completion_thread.h"
#include "src/session/helpers.h"

namespace byteps::session {

// Returns the ranks whose contributions are in every part of a result, the lowest first; none if
// the operation failed. `own`: this process' rank, which is the only one in a job of one.
std::vector<uint32_t> RanksIn(const protocol::Outcome& outcome, uint32_t own);

enum class Progress : uint8_t { kRunning, kDone, kFailed };

class StartedOperation {
 public:
  // `completion`: the user's function to call at the end, or null; the user then waits from now on.
  // `helpers`: those of the operation's engine, or null.
  explicit StartedOperation(std::unique_ptr<Completion> completion,
                            std::shared_ptr<Helpers> helpers = nullptr);

  // Ends the operation and wakes all threads that wait. Returns the completion to call now, or
  // null. Does not block and needs no memory. REQUIRES: called once.
  std::unique_ptr<Completion> End(protocol::Outcome outcome);

  // Keeps the operation's entry for a timeline, except for its end. REQUIRES: the operation is not
  // submitted yet.
  void Record(const runtime::TimelineEntry& entry) {
    entry_ = std::make_unique<const runtime::TimelineEntry>(entry);
  }
  // Returns the entry; null if no timeline has the operation.
  const runtime::TimelineEntry* entry() const { return entry_.get(); }

  Progress progress();

  // Blocks until the operation has ended, and helps the engine meanwhile. Returns how it ended.
  // kDeadlineExceeded: `limit` (negative: none) is over.
  Status Wait(milliseconds limit);

  // Returns the outcome; null while the operation runs. Valid and unchanged as long as this object
  // lives.
  const protocol::Outcome* outcome();

 private:
  const std::shared_ptr<Helpers> helpers_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool ended_ BYTEPS_GUARDED_BY(mutex_) = false;
  protocol::Outcome outcome_ BYTEPS_GUARDED_BY(mutex_);  // does not change once `ended_`
  std::unique_ptr<Completion> completion_ BYTEPS_GUARDED_BY(mutex_);
  // The wait for the completion; none without one, and after the end.
  std::optional<runtime::WaitMeter::Scope> waits_ BYTEPS_GUARDED_BY(mutex_);
  std::unique_ptr<const runtime::TimelineEntry> entry_;
};

}  // namespace byteps::session
