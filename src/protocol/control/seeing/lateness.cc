#include "src/protocol/control/seeing/lateness.h"

#include <algorithm>

namespace byteps::protocol {

void Lateness::BeginGeneration() {
  open_.clear();
  order_.clear();
  first_ = 0;
}

void Lateness::Take(uint32_t rank, const std::vector<wire::Took>& took, size_t ranks) {
  for (const wire::Took& one : took) {
    const Key key{one.tensor, one.round};
    auto [place, fresh] = open_.try_emplace(key);
    if (fresh) order_.push_back(key);
    auto& list = place->second;
    const bool told = std::any_of(list.begin(), list.end(),
                                  [&](const auto& entry) { return entry.first == rank; });
    if (!told) list.emplace_back(rank, one.us);
    if (list.size() < std::max<size_t>(ranks, 2)) continue;  // the others may still be silent
    Compare(key, list);
    open_.erase(place);
  }
  while (order_.size() - first_ > kOpenMax) open_.erase(order_[first_++]);
  if (first_ > kOpenMax) {
    order_.erase(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
}

void Lateness::Compare(const Key& key, const std::vector<std::pair<uint32_t, uint32_t>>& took) {
  uint32_t longest = 0;
  for (const auto& [rank, us] : took) longest = std::max(longest, us);
  for (const auto& [rank, us] : took) {
    Late& late = late_[rank];
    const double ms = (longest - us) / 1e3;
    late.mean_ms = late.rounds == 0 ? ms : late.mean_ms + kWeight * (ms - late.mean_ms);
    late.last_ms = ms;
    ++late.rounds;
    if (ms >= late.mean_ms) {
      late.tensor = key.first;
      late.tensor_ms = ms;
    }
  }
}

}  // namespace byteps::protocol
