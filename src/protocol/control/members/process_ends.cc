#include "src/protocol/control/members/process_ends.h"

#include <algorithm>
#include <utility>

namespace byteps::protocol {

void ProcessEnds::Add(const EndedProcess& ended) {
  if (ended.rank.has_value()) ranks_.insert(*ended.rank);
  ended_.push_back(ended);
}

std::vector<ProcessEnds::End> ProcessEnds::Take(const wire::View& view, bool keep) {
  std::vector<EndedProcess> all = std::exchange(ended_, {});
  std::vector<End> ends;
  for (const EndedProcess& ended : all) {
    auto look = [&](const auto& member) {
      bool same = member.process == ended.process && member.host == ended.host;
      if (!same) return;
      std::string why = "process " + std::to_string(ended.process) + " has ended";
      ends.push_back({member.incarnation, why});
    };
    std::for_each(view.workers.begin(), view.workers.end(), look);
    std::for_each(view.servers.begin(), view.servers.end(), look);
  }
  if (keep) ended_ = std::move(all);
  return ends;
}

uint32_t ProcessEnds::CountAbsent(const Roster& roster, uint32_t worker_count) const {
  std::set<uint32_t> ended = ranks_;
  for (const auto& [id, member] : roster.all()) {
    bool here = member.role() == Role::kWorker && member.presence != Presence::kLeft;
    if (here && member.join.rank >= 0) ended.erase(static_cast<uint32_t>(member.join.rank));
  }
  auto exists = [&](uint32_t rank) { return rank < worker_count; };
  return static_cast<uint32_t>(std::count_if(ended.begin(), ended.end(), exists));
}

}  // namespace byteps::protocol
