#include "src/protocol/control/members/departures.h"

#include <algorithm>

namespace byteps::protocol {

bool Departures::IsGoing(const wire::View& view, uint64_t who) const {
  if (IsLost(who) || !IsLeaving(who)) return IsLost(who);
  auto self = std::find_if(view.workers.begin(), view.workers.end(),
                           [&](const auto& one) { return one.incarnation == who; });
  if (self == view.workers.end()) return true;
  bool needed = false;
  for (const wire::WorkerInfo& one : view.workers) {
    if (one.slot != self->slot) continue;
    if (one.rank < self->rank) return true;  // it is not the carrier
    needed = needed || (!one.left && !IsLost(one.incarnation) && !IsLeaving(one.incarnation));
  }
  return !needed;
}

uint32_t Departures::RanksLeftOver(const wire::View& view, const Incarnations& without) const {
  return static_cast<uint32_t>(
      std::count_if(view.workers.begin(), view.workers.end(), [&](const wire::WorkerInfo& one) {
        return !one.left && !without.contains(one.incarnation) && !IsLost(one.incarnation) &&
               !IsLeaving(one.incarnation);
      }));
}

void Departures::ForgetIf(const std::function<bool(uint64_t)>& stale) {
  std::erase_if(lost_, [&](const auto& entry) { return stale(entry.first); });
  std::erase_if(dead_, stale);
  std::erase_if(leaving_, stale);
}

}  // namespace byteps::protocol
