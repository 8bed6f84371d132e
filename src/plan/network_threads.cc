#include "src/plan/network_threads.h"

#include <algorithm>

namespace byteps::plan {
namespace {

constexpr uint32_t kCoresPerLane = 4;
constexpr uint32_t kCoresPerShard = 2;

NetworkThreads WantedBy(const NetworkShare& share) {
  if (share.link_mbit == 0) return {share.links, ThreadLimit::kUnknownRate};
  const uint64_t each = (share.link_mbit + kMbitPerThread - 1) / kMbitPerThread;
  // The limit is more than the maximum, and keeps the product from an overflow.
  const uint64_t most = std::min<uint64_t>(each, kNetworkThreadsMax + 1);
  return {share.links * static_cast<uint32_t>(most), ThreadLimit::kRate};
}

void LimitTo(uint32_t most, uint32_t links, ThreadLimit why, NetworkThreads& chosen) {
  const uint32_t allowed = std::max(most / links, 1U) * links;
  if (allowed < chosen.count) chosen = {allowed, why};
}

NetworkThreads Choose(const NetworkShare& share, uint32_t cores_per_thread) {
  NetworkThreads chosen = WantedBy(share);
  LimitTo(kNetworkThreadsMax, share.links, ThreadLimit::kMaximum, chosen);
  LimitTo(share.cores / cores_per_thread, share.links, ThreadLimit::kCores, chosen);
  return chosen;
}

}  // namespace

NetworkThreads ChooseLanes(const NetworkShare& share, uint32_t shards) {
  NetworkThreads chosen = Choose(share, kCoresPerLane);
  LimitTo(shards, share.links, ThreadLimit::kShards, chosen);
  return chosen;
}

NetworkThreads ChooseShards(const NetworkShare& share) { return Choose(share, kCoresPerShard); }

// Divides the connections of a worker among all servers.
uint32_t ChooseFarShards(const NetworkShare& share, uint32_t servers) {
  const uint64_t parts =
      std::max<uint64_t>((share.link_mbit + kMbitOfLongPath - 1) / kMbitOfLongPath, 1);
  const uint64_t each = (kConnectionsOfLongPath * parts + servers - 1) / std::max(servers, 1U);
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(each, kNetworkThreadsMax));
  const uint32_t of_links = (most + share.links - 1) / share.links * share.links;
  return std::max(of_links, ChooseShards(share).count);
}

std::string WhyText(const NetworkThreads& chosen, const NetworkShare& share) {
  const std::string rate = std::to_string(share.link_mbit) + " Mbit/s";
  switch (chosen.limit) {
    case ThreadLimit::kUnknownRate: return "nobody has said how fast the link is";
    case ThreadLimit::kRate:
      return "the link has " + rate + ", and a thread carries " + std::to_string(kMbitPerThread);
    case ThreadLimit::kCores:
      return "the link has " + rate + ", but this process may use only " +
             std::to_string(share.cores) + " cores";
    case ThreadLimit::kShards: return "the job need not have more shards";
    case ThreadLimit::kMaximum: return "the link has " + rate + ", and this is the most";
  }
  return "";
}

}  // namespace byteps::plan
