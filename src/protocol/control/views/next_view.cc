#include "src/protocol/control/views/next_view.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/plan/placement.h"
#include "src/protocol/control/members/host_map.h"
#include "src/protocol/control/members/waiting_contributors.h"

namespace byteps::protocol {
namespace {

wire::WorkerInfo InfoOf(const Member& member, Slot slot, uint32_t rank) {
  const wire::Join& join = member.join;
  return {slot, rank, join.incarnation, join.host, join.process, join.local_rank, join.local_size};
}

void SortWorkers(wire::View& view) {
  std::sort(view.workers.begin(), view.workers.end(), [](const auto& a, const auto& b) {
    return std::pair(a.slot, a.rank) < std::pair(b.slot, b.rank);
  });
}

void AddMissing(wire::View& next, uint32_t worker_count) {
  std::set<uint32_t> here;
  for (const wire::WorkerInfo& worker : next.workers) here.insert(worker.rank);
  for (uint32_t rank = 0; rank < worker_count; ++rank) {
    if (here.contains(rank)) continue;
    wire::WorkerInfo missing;
    missing.slot = rank;
    missing.rank = rank;
    next.gone.push_back(missing);
  }
}

}  // namespace

wire::View FirstOfGeneration(const wire::View& present, const Roster& roster,
                             const Departures& departures, uint32_t worker_count) {
  wire::View next = present;
  ++next.epoch;
  ++next.generation;
  next.began = next.epoch;
  if (const wire::Join* join = JoinOfAWorker(roster); join != nullptr) {
    next.piece_bytes_max = join->piece_bytes_max;
    next.same_bits = join->same_bits;
    next.sum_group = join->sum_group;
  }
  next.workers.clear();
  next.gone.clear();
  for (const WaitingContributor& one : WaitingContributors(roster)) {
    if (!one.IsWhole()) continue;
    Slot slot = kNoSlot;
    for (const Member* member : one.processes) slot = std::min(slot, member->index);
    for (const Member* member : one.processes) {
      next.workers.push_back(InfoOf(*member, slot, member->index));
    }
  }
  for (const auto& [id, member] : roster.all()) {
    const wire::Join& join = member.join;
    bool waits = member.role() == Role::kServer && member.presence == Presence::kWaiting;
    if (waits && present.epoch == 0) {
      next.servers.push_back({member.index,
                              join.incarnation,
                              join.host,
                              join.address,
                              join.process,
                              0,
                              std::vector<uint32_t>(join.shards),
                              true,
                              next.epoch,
                              {},
                              join.more_addresses});
    }
  }
  if (present.epoch > 0) PlaceServers(next, roster, departures, next.epoch);
  AddMissing(next, worker_count);
  SortWorkers(next);
  std::sort(next.servers.begin(), next.servers.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  return next;
}

void DropWorkers(wire::View& next, const Roster& roster, const Departures& departures, bool goes_on,
                 const CoordinatorRules& rules) {
  std::set<Slot> losing, leaving, staying;
  for (wire::WorkerInfo& one : next.workers) {
    if (departures.IsLost(one.incarnation)) {
      losing.insert(one.slot);
    } else if (departures.IsLeaving(one.incarnation)) {
      one.left = true;
      leaving.insert(one.slot);
    } else if (!one.left) {
      staying.insert(one.slot);
    }
  }
  std::vector<wire::WorkerInfo> stay;
  for (wire::WorkerInfo& one : next.workers) {
    bool lost = departures.IsLost(one.incarnation);
    const Member* heir = lost ? rules.Heir(one, roster) : nullptr;
    if (heir != nullptr) {
      stay.push_back(InfoOf(*heir, one.slot, one.rank));
      continue;
    }
    bool all_leave = leaving.contains(one.slot) && !staying.contains(one.slot);
    bool left_before = one.left && losing.contains(one.slot) && !staying.contains(one.slot);
    (lost || left_before || (all_leave && goes_on) ? next.gone : stay).push_back(std::move(one));
  }
  next.workers = std::move(stay);
}

void PlaceServers(wire::View& next, const Roster& roster, const Departures& departures,
                  uint64_t epoch) {
  for (wire::ServerInfo& place : next.servers) {
    if (place.alive && departures.IsLost(place.incarnation)) {
      place.alive = false;
      place.since = epoch;
    }
  }
  for (const auto& [id, member] : roster.all()) {
    if (member.role() != Role::kServer || member.presence != Presence::kWaiting) continue;
    for (wire::ServerInfo& place : next.servers) {
      if (place.index != member.index || place.alive) continue;
      place.alive = true;
      place.since = epoch;
      place.incarnation = member.incarnation();
      place.host = member.join.host;
      place.address = member.join.address;
      place.more_addresses = member.join.more_addresses;
      place.process = member.join.process;
    }
  }
}

void AdmitWorkers(wire::View& next, const Roster& roster, Slot slot, uint64_t epoch) {
  std::erase_if(next.workers, [present = next](const wire::WorkerInfo& one) {
    return one.left && !IsIn(present, one.incarnation);  // a carrier carries for the others
  });
  next.gone.clear();
  ++next.generation;
  next.began = epoch;
  std::set<uint32_t> taken;
  for (const wire::WorkerInfo& one : next.workers) taken.insert(one.rank);
  for (const WaitingContributor& one : WaitingContributors(roster)) {
    if (!one.IsWhole()) continue;
    if (slot >= wire::kMembersMax) break;
    std::set<uint32_t> ranks;
    for (const Member* member : one.processes) {
      uint32_t rank = member->join.rank >= 0 ? static_cast<uint32_t>(member->join.rank) : 0;
      if (taken.contains(rank)) rank = 0;
      while (taken.contains(rank)) ++rank;
      taken.insert(rank);
      ranks.insert(rank);
    }
    // The first process of a contributor has its lowest rank (members/quorum.h).
    auto rank = ranks.begin();
    for (const Member* member : one.processes) {
      next.workers.push_back(InfoOf(*member, slot, *rank++));
    }
    ++slot;
  }
  SortWorkers(next);
}

Status Weigh(wire::View& view, const Roster& roster) {
  ShardId next_shard = 0;
  for (wire::ServerInfo& server : view.servers) {
    server.first_shard = next_shard;
    server.placed_weights.clear();
    next_shard += static_cast<ShardId>(server.shard_weights.size());
  }
  view.placed = 0;
  const HostMap map(view, roster);
  Result<plan::Shares> shares = plan::ComputeShares(map.hosts());
  if (!shares.ok()) return shares.status();
  Result<std::vector<uint32_t>> weights = plan::ShardWeights(shares.value(), map.sites());
  if (!weights.ok()) return weights.status();
  for (wire::ServerInfo& server : view.servers) {
    for (size_t i = 0; i < server.shard_weights.size(); ++i) {
      server.shard_weights[i] = weights.value()[server.first_shard + i];
    }
  }
  return Status::Ok();
}

bool AnyServer(const wire::View& view) {
  return std::any_of(view.servers.begin(), view.servers.end(),
                     [](const wire::ServerInfo& server) { return server.alive; });
}

bool AllWorkersLeft(const wire::View& view) {
  return std::all_of(view.workers.begin(), view.workers.end(),
                     [](const wire::WorkerInfo& worker) { return worker.left; });
}

}  // namespace byteps::protocol
