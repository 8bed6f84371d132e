// Decides how many threads carry the network, unless the user has: the lanes of a worker and the
// shards of a server. One rule serves both (docs/decisions/0033-lanes-and-links.md):
//
//   * A link needs a thread for every kMbitPerThread of its rate, and one if the rate is unknown.
//   * Each of several links has equally many, so that all of them carry the same.
//   * A worker leaves three quarters of its cores to the computation, a server half of them to the
//     kernel and its neighbours. But each link has one thread, however few cores there are.
//   * A lane without a shard has nothing to do.
//   * A server that is far away has more shards, because each is a connection of its own, and one
//     connection does not fill a long path (docs/decisions/0034-long-paths.md).
//
// Pure.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/time.h"

namespace byteps::plan {

inline constexpr uint64_t kMbitPerThread = 10'000;
// Nobody has measured more threads than these.
inline constexpr uint32_t kNetworkThreadsMax = 8;
// A path with at least this round-trip time is a long one.
inline constexpr Duration kLongPath = milliseconds(5);
// The connections that a worker needs for each kMbitOfLongPath of a long path's rate, or if the
// rate is unknown.
inline constexpr uint32_t kConnectionsOfLongPath = 4;
inline constexpr uint64_t kMbitOfLongPath = 500;

struct NetworkShare {
  uint32_t cores = 1;      // the cores that this process may use
  uint64_t link_mbit = 0;  // the rate of each of its links; 0: unknown
  uint32_t links = 1;      // at least 1
};

// The part of the rule that decided.
enum class ThreadLimit : uint8_t { kUnknownRate, kRate, kCores, kShards, kMaximum };

struct NetworkThreads {
  uint32_t count = 1;  // a multiple of the links
  ThreadLimit limit = ThreadLimit::kRate;
  friend bool operator==(const NetworkThreads&, const NetworkThreads&) = default;
};

// `shards`: the least number of shards that the job has.
NetworkThreads ChooseLanes(const NetworkShare& share, uint32_t shards);
NetworkThreads ChooseShards(const NetworkShare& share);
// Returns the number of shards for each of `servers` servers on a long path; may exceed its cores.
uint32_t ChooseFarShards(const NetworkShare& share, uint32_t servers);

// Returns half a sentence for the log: "its link has 25000 Mbit/s, and a thread carries 10000".
std::string WhyText(const NetworkThreads& chosen, const NetworkShare& share);

}  // namespace byteps::plan
