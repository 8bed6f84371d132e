// The ways from a lane to a shard, where hosts have several interfaces.
//
// A server announces an address for each of its interfaces, and a lane may have an interface of its
// own. Both links carry the shard's bytes, so the choice follows two rules:
//   * A lane takes addresses in the network of its interface before others. No router is in
//     between, and networks that do not reach each other stay apart.
//   * Of several that are equally good, shard number i of its server takes number i of them: then
//     the shards of a server share its interfaces.
// The other ways are for when the best one is broken. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace byteps::runtime {

// An address of an interface of this host, and how many bits of it are the network's.
struct OwnAddress {
  std::string address;
  int prefix_bits = 0;
  friend bool operator==(const OwnAddress&, const OwnAddress&) = default;
};

struct ShardPath {
  std::string to;    // "host:port"
  std::string from;  // the own address; empty: the system chooses
  friend bool operator==(const ShardPath&, const ShardPath&) = default;
};

// Best first; never empty if `addresses` is not. `own`: of the lane's interface; empty if the lane
// has none. `number`: of the shard among its server's.
std::vector<ShardPath> PathsTo(std::span<const std::string> addresses, uint32_t number,
                               std::span<const OwnAddress> own);

}  // namespace byteps::runtime
