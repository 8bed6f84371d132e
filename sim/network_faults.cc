// The faults of a network: slow links, late frames, cuts and partitions.
#include <algorithm>
#include <utility>

#include "sim/network.h"

namespace byteps::sim {

void Network::SetRate(HostId host, double bytes_per_second) {
  links_[host].bytes_per_second = bytes_per_second;
}

void Network::SetJitter(ConnectionId connection, Duration jitter_max) {
  for (SideId side : {2 * connection, 2 * connection + 1}) {
    jitter_[side] = jitter_max;
    sides_[side].jitters = true;
  }
}

bool Network::IsCut(SideId from) const {
  if (cuts_ > 0 && sides_[from].cut) return true;
  if (group_by_host_.empty()) return false;
  return group_by_host_[sides_[from].host] != group_by_host_[sides_[Peer(from)].host];
}

void Network::Cut(ConnectionId connection, uint32_t from_end, bool cut) {
  Side& side = sides_[2 * connection + from_end];
  if (std::exchange(side.cut, cut) == cut) return;
  cuts_ += cut ? 1 : -1;
  if (!cut) ReleaseStalls();
}

void Network::Partition(std::vector<uint32_t> group_by_host) {
  group_by_host_ = std::move(group_by_host);
  ReleaseStalls();
}

void Network::StallFrame(SideId from, FrameId frame) {
  WatchStall(ConnectionOf(from));
  stalls_[ConnectionOf(from)].frames.emplace_back(Peer(from), frame);
}

// Begins to count the timeout with the first frame that is not acknowledged.
void Network::WatchStall(ConnectionId connection) {
  auto [stall, fresh] = stalls_.try_emplace(connection);
  if (!fresh) return;
  stall->second.since = now_;
  At(now_ + options_.timeout, nullptr, [this, connection] {
    auto found = stalls_.find(connection);
    bool lost = found != stalls_.end() && found->second.since + options_.timeout <= now_;
    if (lost) CloseBothEnds(connection, true);
  });
}

// Releases connections in the order of their numbers, so that the same seed gives the same
// schedule.
void Network::ReleaseStalls() {
  std::vector<ConnectionId> stalled;
  for (const auto& [connection, stall] : stalls_) stalled.push_back(connection);
  std::sort(stalled.begin(), stalled.end());
  for (ConnectionId connection : stalled) {
    Stall& stall = stalls_.at(connection);
    std::erase_if(stall.frames, [&](const std::pair<SideId, FrameId>& waiting) {
      SideId from = Peer(waiting.first);
      if (IsCut(from)) return false;
      Propagate(from, waiting.second, sides_[from].host == sides_[waiting.first].host);
      return true;
    });
    if (!IsCut(2 * connection) && !IsCut(2 * connection + 1)) stalls_.erase(connection);
  }
}

}  // namespace byteps::sim
