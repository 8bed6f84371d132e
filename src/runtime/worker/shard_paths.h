// The ways from a lane to a shard, where hosts have several interfaces.
//
// A server announces an address for each of its interfaces, and a lane may have an interface of its
// own. Both links carry the shard's bytes, so the choice follows two rules:
//   * A lane prefers addresses in the network of its interface. No router is in between, and
//     networks that do not reach each other stay apart.
//   * Among n equally good addresses, shard number i of a server takes number i modulo n. The
//     shards of a server then share the server's interfaces.
// The lane uses the other ways when the best way is broken. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace byteps::runtime {

// An address of an interface of this host. The first `prefix_bits` bits name the network.
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

// Returns the ways, the best first; never empty if `addresses` is not. `number`: the number of the
// shard within its server. `own`: the addresses of the lane's interface; empty if the lane has
// none.
std::vector<ShardPath> PathsTo(std::span<const std::string> addresses, uint32_t number,
                               std::span<const OwnAddress> own);

}  // namespace byteps::runtime
