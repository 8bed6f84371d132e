// The shards to which a lane's connections should lead: which connections a view ends, and which it
// asks for. The code that carries a view to a lane first closes the connections that the view ends,
// so that nothing of them is read any more. Then it gives the lane the view, and then it makes the
// missing connections. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/wire/view.h"

namespace byteps::protocol {

class ShardTargets {
 public:
  struct Target {
    uint32_t server = 0;
    uint64_t incarnation = 0;            // 0: the shard is dead or of another lane
    std::vector<std::string> addresses;  // one for each of its interfaces
    std::string host;                    // its host identity
    ShardId first_shard = 0;             // first shard of the server
  };

  ShardTargets(uint32_t lane, uint32_t lanes) : lane_(lane), lanes_(lanes) {}

  // Takes the view. Returns the shards whose connections do not belong to it.
  std::vector<ShardId> End(const wire::View& view);
  // Returns, once after each End, the shards that the view asks for.
  std::vector<ShardId> TakeNew();

  // Returns the targets by shard, of all lanes.
  const std::vector<Target>& all() const { return targets_; }
  uint32_t generation() const { return generation_; }

 private:
  const uint32_t lane_;
  const uint32_t lanes_;
  uint32_t generation_ = 0;
  std::vector<Target> targets_;
  std::vector<ShardId> missing_;
};

}  // namespace byteps::protocol
