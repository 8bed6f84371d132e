#include "src/runtime/worker/standing.h"

#include <algorithm>
#include <utility>

#include "src/protocol/control/views/sum_order.h"

namespace byteps::runtime {

Standing StandingOf(const wire::View& view, uint64_t incarnation) {
  Standing standing;
  standing.ranks.clear();
  for (const wire::WorkerInfo& worker : wire::WorkersOfGeneration(view)) {
    standing.ranks.push_back(worker.rank);
  }
  std::sort(standing.ranks.begin(), standing.ranks.end());
  standing.size = static_cast<uint32_t>(standing.ranks.size());
  for (const wire::WorkerInfo& worker : view.workers) {
    if (worker.incarnation == incarnation) standing.rank = worker.rank;
  }
  return standing;
}

std::vector<uint32_t> MembersOf(const wire::View& view) {
  std::vector<uint32_t> members;
  for (const wire::WorkerInfo& worker : view.workers) {
    if (!worker.left) members.push_back(worker.rank);
  }
  std::sort(members.begin(), members.end());
  return members;
}

void Milestones::SetStarted(const Result<Standing>& how) {
  MutexLock lock(mutex_);
  if (started_.has_value()) return;
  started_ = how;
  changed_.notify_all();
}

std::optional<Result<Standing>> Milestones::WaitForStart(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!started_.has_value()) {
    if (!lock.WaitUntil(changed_, deadline)) break;
  }
  return started_;
}

void Milestones::SetView(const wire::View& view) {
  MutexLock lock(mutex_);
  members_ = MembersOf(view);
  if (view.generation == generation_) return;
  generation_ = view.generation;
  sums_ = protocol::DescribeSums(view);
}

std::vector<uint32_t> Milestones::Members() {
  MutexLock lock(mutex_);
  return members_;
}

plan::SumReport Milestones::Sums() {
  MutexLock lock(mutex_);
  return sums_;
}

void Milestones::SetLeft() {
  MutexLock lock(mutex_);
  left_ = true;
  changed_.notify_all();
}

bool Milestones::WaitUntilLeft(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!left_) {
    if (!lock.WaitUntil(changed_, deadline)) break;
  }
  return left_;
}

void Milestones::SetAwaitsCoordinator() {
  MutexLock lock(mutex_);
  awaits_coordinator_ = true;
}

bool Milestones::AwaitsCoordinator() {
  MutexLock lock(mutex_);
  return awaits_coordinator_;
}

}  // namespace byteps::runtime
