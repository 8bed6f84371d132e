#include "src/protocol/control/seeing/job_status.h"

#include <algorithm>
#include <utility>

namespace byteps::protocol {

void AddAccount(const Accounts& accounts, MemberStatus& status) {
  auto teller = accounts.tellers().find(status.index);
  if (teller == accounts.tellers().end()) return;
  status.account = teller->second.account;
  status.operations_per_s = teller->second.operations_per_s;
  status.bytes_per_s = teller->second.bytes_per_s;
  status.waited_share = teller->second.waited_share;
  auto late = accounts.lateness().by_rank().find(status.index);
  if (late != accounts.lateness().by_rank().end()) status.late = late->second;
}

namespace {

// Servers know their workers by slot, and people by rank. A slot that the view does not have is of
// a worker that has gone meanwhile.
std::vector<MemberStatus::Way> WaysOf(const wire::ServerAccount& account, const wire::View& view) {
  std::vector<MemberStatus::Way> ways;
  for (const wire::Way& one : account.ways) {
    MemberStatus::Way& way = ways.emplace_back();
    way.over = one.over;
    way.connections = one.connections;
    for (const wire::WorkerInfo& worker : view.workers) {
      if (std::ranges::binary_search(one.slots, worker.slot)) way.ranks.push_back(worker.rank);
    }
    std::ranges::sort(way.ranks);
  }
  return ways;
}

}  // namespace

const char* TextFor(MemberState state) {
  switch (state) {
    case MemberState::kWaits: return "waits";
    case MemberState::kIn: return "in";
    case MemberState::kSilent: return "silent";
    case MemberState::kAway: return "away";
    case MemberState::kLeft: return "left";
  }
  return "";
}

std::vector<MemberStatus> MembersStatus(const wire::View& view, const Roster& roster,
                                        const Suspicions& suspicions, const Accounts& accounts,
                                        Time now) {
  std::vector<MemberStatus> members;
  auto add = [&](Role role, uint32_t index, uint64_t incarnation, uint32_t process, bool left) {
    MemberStatus status;
    status.role = role;
    status.index = index;
    status.process = process;
    const Member* member = roster.Find(incarnation);
    if (member != nullptr) status.node = member->join.node;
    if (std::optional<Time> heard = suspicions.HeardAt(incarnation)) status.silent = now - *heard;
    if (left) {
      status.state = MemberState::kLeft;
    } else if (member == nullptr) {
      status.state = MemberState::kAway;
    } else if (status.silent > kSilentAfter) {
      status.state = MemberState::kSilent;
    }
    if (role == Role::kWorker && !left) AddAccount(accounts, status);
    members.push_back(std::move(status));
  };
  for (const wire::WorkerInfo& one : view.workers) {
    add(Role::kWorker, one.rank, one.incarnation, one.process, one.left);
  }
  for (const wire::ServerInfo& one : view.servers) {
    if (!one.alive) continue;
    add(Role::kServer, one.index, one.incarnation, one.process, false);
    members.back().address = one.address;
    auto server = accounts.servers().find(one.incarnation);
    if (server == accounts.servers().end()) continue;
    members.back().server = server->second;
    members.back().ways = WaysOf(server->second.account, view);
  }
  for (const auto& [id, member] : roster.all()) {
    if (member.presence != Presence::kWaiting) continue;
    const wire::Join& join = member.join;
    const uint32_t wished = join.rank < 0 ? kNoSlot : static_cast<uint32_t>(join.rank);
    MemberStatus& status = members.emplace_back();
    status.role = member.role();
    status.index = member.index == kNoSlot ? wished : member.index;
    status.state = MemberState::kWaits;
    status.process = join.process;
    status.node = join.node;
    status.address = join.address;
  }
  std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
    return std::pair(a.role, a.index) < std::pair(b.role, b.index);
  });
  return members;
}

std::vector<TensorId> TensorsIn(const JobStatus& status) {
  std::vector<TensorId> tensors;
  for (const MemberStatus& one : status.members) {
    if (one.late.has_value()) tensors.push_back(one.late->tensor);
  }
  std::sort(tensors.begin(), tensors.end());
  tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
  return tensors;
}

}  // namespace byteps::protocol
