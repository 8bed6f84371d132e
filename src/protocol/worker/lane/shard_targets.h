// Where a lane's connections should lead: which of them a view ends, and which it asks for. Who
// carries a view to a lane closes first what the view ends, so that nothing of it is read any more,
// then gives the lane the view, and then connects what is missing. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/wire/control.h"

namespace byteps::protocol {

class ShardTargets {
 public:
  struct Target {
    uint32_t server = 0;
    uint64_t incarnation = 0;            // 0: nobody, the shard is dead or of another lane
    std::vector<std::string> addresses;  // one for each of its interfaces
    std::string host;                    // its host identity
    ShardId first_shard = 0;             // of the server
  };

  ShardTargets(uint32_t lane, uint32_t lanes) : lane_(lane), lanes_(lanes) {}

  // Takes the view: returns the shards whose connections have no place in it.
  std::vector<ShardId> End(const wire::View& view);
  // And then, once: those that it asks for.
  std::vector<ShardId> TakeNew();

  // By shard, of all lanes.
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
