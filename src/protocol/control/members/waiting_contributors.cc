#include "src/protocol/control/members/waiting_contributors.h"

#include <algorithm>
#include <map>

namespace byteps::protocol {

std::vector<WaitingContributor> WaitingContributors(const Roster& roster) {
  std::vector<WaitingContributor> waiting;
  std::map<std::string, size_t> place_of;
  for (const auto& [id, member] : roster.all()) {
    if (member.role() != Role::kWorker || member.presence != Presence::kWaiting) continue;
    const std::string& key = member.join.contributor;
    auto [place, fresh] = place_of.try_emplace(key, waiting.size());
    if (fresh || key.empty()) {
      waiting.push_back(
          {key, key.empty() ? 1 : member.join.contributor_size, {&member}, member.join.meets});
    } else {
      waiting[place->second].processes.push_back(&member);
      waiting[place->second].meets |= member.join.meets;
    }
  }
  for (WaitingContributor& one : waiting) {
    std::stable_sort(one.processes.begin(), one.processes.end(),
                     [](auto* a, auto* b) { return a->join.local_rank < b->join.local_rank; });
  }
  return waiting;
}

std::string LackOf(const WaitingContributor& one) {
  const std::string& node = one.processes.front()->join.node;
  return (node.empty() ? "contributor '" + one.key + "'" : node) + " lacks " +
         std::to_string(one.size - one.processes.size()) + " of its " + std::to_string(one.size) +
         " processes";
}

bool AnyWhole(const std::vector<WaitingContributor>& waiting) {
  return std::any_of(waiting.begin(), waiting.end(),
                     [](const WaitingContributor& one) { return one.IsWhole(); });
}

uint32_t CountWhole(const std::vector<WaitingContributor>& waiting) {
  uint32_t count = 0;
  for (const WaitingContributor& one : waiting) count += one.IsWhole() ? one.size : 0;
  return count;
}

}  // namespace byteps::protocol
