// Computes how many bytes each server should combine, from the links of the job.
//
// The model. A host has one full-duplex link, `workers` contributors and `servers` servers; bytes
// that stay on a host cost nothing. All N workers push every byte of a tensor of M bytes once and
// pull it once. If host i combines the share x_i of the bytes (the shares sum to 1), then it sends,
// and receives,
//
//     load_i = workers_i * (1 - x_i)   its own workers, to and from the other hosts
//            + (N - workers_i) * x_i   its servers, to and from the other hosts' workers
//            = workers_i + x_i * (N - 2 * workers_i)                               (times M)
//
// and a round takes max over i of load_i / link_i. ComputeShares minimises that exactly, without a
// search (docs/decisions/0004-placement.md has the proof):
//
//   * A host with a server and more than half of all workers takes everything: each host's load is
//     then the least it can be.
//   * Else, hosts with a server and fewer than half of the workers are filled like vessels to one
//     level t: x_i = max(0, (link_i * t - workers_i) / (N - 2 * workers_i)), with t such that the
//     shares sum to 1. Hosts too slow for their own workers' traffic get nothing.
//   * A host with exactly half of the workers carries the same load whatever its share. Such hosts
//     take what is left when the others reach the load that no placement can avoid,
//     max(workers_i / link_i).
//
// With one worker per host and a server beside each worker this is the known optimum
// t = 2 n (n - 1) / ((n^2 + k n - 2 k) B), and its form for unequal links.
//
// Ranks of one host that combine locally before sending are one contributor: only their carrier's
// bytes use the link. The size of a piece counts ranks instead (partition.h).
// Pure: only +, -, *, / and comparisons of doubles, in the order given, so equal inputs give equal
// bits on every machine whose doubles are IEEE 754.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.h"

namespace byteps::plan {

struct Host {
  uint64_t link = 0;     // rate, any unit, the same for all hosts; 0 = unknown
  uint32_t workers = 0;  // contributors
  uint32_t servers = 0;  // server processes; they share the host's share equally

  bool operator==(const Host&) const = default;
};

// Weights are whole numbers of this many parts, so that dealing pieces is integer arithmetic.
inline constexpr uint32_t kWeightParts = 1U << 30;

struct Shares {
  std::vector<double> host_share;       // share of the bytes per host; sums to 1
  std::vector<uint32_t> server_weight;  // weight of each one of a host's servers, in parts
  double time_per_byte = 0;             // least possible time of a round over its bytes
};

// Returns the optimal shares. An unknown link counts as the (lower) median of the known ones; if
// none is known all are 1, and time_per_byte is in units of one link's time for a byte.
// kInvalidArgument: no host has a server. Without workers, servers share by link.
Result<Shares> ComputeShares(std::span<const Host> hosts);

// Returns the time of a round over its bytes if the hosts' shares are `host_share`, by the model
// above. REQUIRES: host_share.size() == hosts.size().
double TimePerByte(std::span<const Host> hosts, std::span<const double> host_share);

// Returns the bytes that all hosts send to each other in a round, per byte of the tensor, by the
// same model. REQUIRES: as TimePerByte.
double LoadPerByte(std::span<const Host> hosts, std::span<const double> host_share);

// Returns `host_share` with the weights and the time that belong to it. REQUIRES: as TimePerByte.
Shares SharesOf(std::span<const Host> hosts, std::vector<double> host_share);

// A server process: where it runs (an index into `hosts`) and how many shards it has.
struct ServerSite {
  uint32_t host = 0;
  uint32_t shards = 1;
};

// Returns the weight of every shard of the job in ShardId order (the servers' shards one after
// another): a server's weight in equal parts. At least one is positive. kInvalidArgument: no site
// has a shard, or a site names no host of `shares`.
Result<std::vector<uint32_t>> ShardWeights(const Shares& shares, std::span<const ServerSite> sites);

}  // namespace byteps::plan
