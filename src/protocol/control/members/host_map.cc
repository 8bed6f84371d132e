#include "src/protocol/control/members/host_map.h"

#include <algorithm>

namespace byteps::protocol {

HostMap::HostMap(const wire::View& view, const Roster& roster) {
  // A member that uses more of its host's interfaces knows of a faster link.
  auto link_of = [&](uint32_t host, uint64_t incarnation) {
    const Member* member = roster.Find(incarnation);
    if (member == nullptr) return;
    hosts_[host].link = std::max<uint64_t>(hosts_[host].link, member->join.link_mbit);
  };
  for (const wire::Contributor& one : wire::ContributorsOf(view)) {
    uint32_t host = IndexOf(one.carrier().host);
    ++hosts_[host].workers;
    for (const wire::WorkerInfo& worker : one.processes) {
      link_of(host, worker.incarnation);
      by_worker_[worker.incarnation] = host;
    }
  }
  for (const wire::ServerInfo& server : view.servers) {
    uint32_t host = IndexOf(server.host);
    ++hosts_[host].servers;
    link_of(host, server.incarnation);
    sites_.push_back({host, static_cast<uint32_t>(server.shard_weights.size())});
    by_shard_.insert(by_shard_.end(), server.shard_weights.size(), host);
  }
}

uint32_t HostMap::IndexOf(const std::string& name) {
  auto [found, fresh] = by_name_.try_emplace(name, static_cast<uint32_t>(hosts_.size()));
  if (fresh) hosts_.emplace_back();
  return found->second;
}

std::optional<uint32_t> HostMap::OfWorker(uint64_t incarnation) const {
  auto found = by_worker_.find(incarnation);
  if (found == by_worker_.end()) return std::nullopt;
  return found->second;
}

std::optional<uint32_t> HostMap::OfShard(ShardId shard) const {
  if (shard >= by_shard_.size()) return std::nullopt;
  return by_shard_[shard];
}

}  // namespace byteps::protocol
