#include "src/protocol/control/departures.h"

#include <algorithm>

namespace byteps::protocol {

uint32_t Departures::RanksLeftOver(const wire::View& view, const Incarnations& without) const {
  return static_cast<uint32_t>(
      std::count_if(view.workers.begin(), view.workers.end(), [&](const wire::WorkerInfo& one) {
        return !one.left && !without.contains(one.incarnation) && !IsGoing(one.incarnation);
      }));
}

void Departures::ForgetIf(const std::function<bool(uint64_t)>& stale) {
  std::erase_if(lost_, [&](const auto& entry) { return stale(entry.first); });
  std::erase_if(dead_, stale);
  std::erase_if(leaving_, stale);
}

}  // namespace byteps::protocol
