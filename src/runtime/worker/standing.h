// The place of a process in its job, and the moments that an engine's users wait for: the engine
// has started, and the engine has left.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/base/time.h"
#include "src/plan/follows_ranks.h"
#include "src/wire/view.h"

namespace byteps::runtime {

struct Standing {
  uint32_t rank = 0;
  uint32_t size = 1;
  std::vector<uint32_t> ranks = {0};  // all ranks of the job, ascending
};

// Returns the standing of the worker with this incarnation, in the generation of `view`.
Standing StandingOf(const wire::View& view, uint64_t incarnation);
// Returns the ranks that have not left, ascending.
std::vector<uint32_t> MembersOf(const wire::View& view);

// The thread of an engine's loop sets these facts, and any thread may wait for them. The Wait
// methods block until `deadline` at the latest; the other methods do not block.
class Milestones {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Notes that the engine has started, or never will. Only the first call counts.
  void SetStarted(const Result<Standing>& how);
  std::optional<Result<Standing>> WaitForStart(Deadline deadline);

  // Notes what any thread may ask of the view in force.
  void SetView(const wire::View& view);
  std::vector<uint32_t> Members();
  plan::SumReport Sums();

  // Notes that no operation is open, now and later.
  void SetLeft();
  bool WaitUntilLeft(Deadline deadline);
  // Notes that the coordinator is away and has not heard yet that this worker leaves.
  void SetAwaitsCoordinator();
  bool AwaitsCoordinator();

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<Standing>> started_ BYTEPS_GUARDED_BY(mutex_);
  std::vector<uint32_t> members_ BYTEPS_GUARDED_BY(mutex_);
  uint32_t generation_ BYTEPS_GUARDED_BY(mutex_) = 0;
  plan::SumReport sums_ BYTEPS_GUARDED_BY(mutex_);  // of this generation
  bool left_ BYTEPS_GUARDED_BY(mutex_) = false;
  bool awaits_coordinator_ BYTEPS_GUARDED_BY(mutex_) = false;
};

}  // namespace byteps::runtime
