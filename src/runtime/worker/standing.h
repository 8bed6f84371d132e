// Where a process stands in its job, and what an engine's users wait for: that it stands there, and
// that it has left.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/base/time.h"
#include "src/wire/control.h"

namespace byteps::runtime {

struct Standing {
  uint32_t rank = 0;
  uint32_t size = 1;
  std::vector<uint32_t> ranks = {0};  // all that there are, ascending
};

// Of a worker with this incarnation, in the generation of `view`.
Standing StandingOf(const wire::View& view, uint64_t incarnation);
// The ranks that have not left, ascending.
std::vector<uint32_t> MembersOf(const wire::View& view);

// What the thread of an engine's loop tells, and any thread may wait for. The Wait methods block
// until `deadline` at the latest, the others do not.
class Milestones {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // The engine has started, or will not. The first counts.
  void SetStarted(const Result<Standing>& how);
  std::optional<Result<Standing>> WaitForStart(Deadline deadline);

  void SetMembers(std::vector<uint32_t> members);
  std::vector<uint32_t> Members();

  // No operation is open, now and later.
  void SetLeft();
  bool WaitUntilLeft(Deadline deadline);
  // That this worker leaves has still to be said, to a coordinator that is away.
  void SetAwaitsCoordinator();
  bool AwaitsCoordinator();

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<Standing>> started_ BYTEPS_GUARDED_BY(mutex_);
  std::vector<uint32_t> members_ BYTEPS_GUARDED_BY(mutex_);
  bool left_ BYTEPS_GUARDED_BY(mutex_) = false;
  bool awaits_coordinator_ BYTEPS_GUARDED_BY(mutex_) = false;
};

}  // namespace byteps::runtime
