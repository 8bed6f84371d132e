#include "src/protocol/control/views/sync_points.h"

#include <algorithm>

namespace byteps::protocol {

SyncPoints::Answers SyncPoints::Reach(uint64_t who, const wire::Sync& sync) {
  waiting_[who] = sync.point;
  return Pass(sync.generation, std::max(sync.point, 1U) - 1, sync.generation);
}

SyncPoints::Answers SyncPoints::Pass(uint32_t generation, uint32_t count, uint32_t present) {
  passed_ = std::max(passed_, Passed{generation, count});
  if (passed_.generation != present) return {};
  Answers answers;
  std::erase_if(waiting_, [&](const auto& entry) {
    if (entry.second > passed_.count) return false;
    answers.push_back({entry.first, {present, entry.second}});
    return true;
  });
  return answers;
}

bool SyncPoints::AllWait(const wire::View& view, const Departures& departures) const {
  return !waiting_.empty() &&
         std::all_of(view.workers.begin(), view.workers.end(), [&](const wire::WorkerInfo& one) {
           uint64_t who = one.incarnation;
           return one.left || departures.IsLost(who) || departures.IsLeaving(who) ||
                  waiting_.contains(who);
         });
}

SyncPoints::Answers SyncPoints::GoOn(uint32_t generation) {
  return Pass(generation, waiting_.begin()->second, generation);
}

void SyncPoints::ForgetIf(const std::function<bool(uint64_t)>& stale) {
  std::erase_if(waiting_, [&](const auto& entry) { return stale(entry.first); });
}

}  // namespace byteps::protocol
