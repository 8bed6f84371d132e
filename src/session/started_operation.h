// One operation that a user has started: whether it has ended, and what it brought.
//
// Thread-safe. Shared by the session's table, the engine and whoever waits, whichever lets go last:
// who waits needs no session meanwhile.
#pragma once

#include <condition_variable>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/base/time.h"
#include "src/protocol/worker/worker.h"
#include "src/runtime/seeing/timeline_log.h"
#include "src/session/completion_thread.h"
#include "src/session/helpers.h"

namespace byteps::session {

// Whose contributions are in every part of a result, the lowest rank first; nobody's when the
// operation failed. `own`: this process's rank, which is all of them in a job of one.
std::vector<uint32_t> RanksIn(const protocol::Outcome& outcome, uint32_t own);

enum class Progress : uint8_t { kRunning, kDone, kFailed };

class StartedOperation {
 public:
  // `completion`: what the user wants to be called, or null. `helpers`: of the engine that it is
  // submitted to, or null.
  explicit StartedOperation(std::unique_ptr<Completion> completion,
                            std::shared_ptr<Helpers> helpers = nullptr)
      : helpers_(std::move(helpers)), completion_(std::move(completion)) {}

  // It has ended: everybody who waits comes back. Returns what is to be called now, or null.
  // REQUIRES: called once. Does not block and needs no memory.
  std::unique_ptr<Completion> End(protocol::Outcome outcome);

  // Before it is submitted: what a timeline says of it, but for its end.
  void Record(const runtime::TimelineEntry& entry) {
    entry_ = std::make_unique<const runtime::TimelineEntry>(entry);
  }
  // Null: no timeline has it.
  const runtime::TimelineEntry* entry() const { return entry_.get(); }

  Progress progress();

  // Blocks until it has ended or `limit` (negative: none) is over, then kDeadlineExceeded; helps
  // the engine meanwhile. Returns how it ended.
  Status Wait(milliseconds limit);

  // What it brought; null while it runs. Valid and unchanged as long as this object.
  const protocol::Outcome* outcome();

 private:
  const std::shared_ptr<Helpers> helpers_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool ended_ BYTEPS_GUARDED_BY(mutex_) = false;
  protocol::Outcome outcome_ BYTEPS_GUARDED_BY(mutex_);  // nobody changes it once `ended_`
  std::unique_ptr<Completion> completion_ BYTEPS_GUARDED_BY(mutex_);
  std::unique_ptr<const runtime::TimelineEntry> entry_;
};

}  // namespace byteps::session
