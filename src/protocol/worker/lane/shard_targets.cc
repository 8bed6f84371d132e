#include "src/protocol/worker/lane/shard_targets.h"

#include <utility>

namespace byteps::protocol {

std::vector<ShardId> ShardTargets::End(const wire::View& view) {
  std::vector<Target> wanted;
  for (const wire::ServerInfo& server : view.servers) {
    std::vector<std::string> addresses = {server.address};
    addresses.insert(addresses.end(), server.more_addresses.begin(), server.more_addresses.end());
    for (size_t i = 0; i < server.shard_weights.size(); ++i) {
      bool here = server.alive && wanted.size() % lanes_ == lane_;
      wanted.push_back({server.index, here ? server.incarnation : 0, addresses, server.host,
                        server.first_shard});
    }
  }
  bool begins = view.generation != std::exchange(generation_, view.generation);
  std::vector<ShardId> ended;
  missing_.clear();
  for (ShardId shard = 0; shard < targets_.size(); ++shard) {
    bool stays = !begins && shard < wanted.size() &&
                 wanted[shard].incarnation == targets_[shard].incarnation;
    if (!stays && targets_[shard].incarnation != 0) ended.push_back(shard);
  }
  for (ShardId shard = 0; shard < wanted.size(); ++shard) {
    bool had = !begins && shard < targets_.size() &&
               wanted[shard].incarnation == targets_[shard].incarnation;
    if (!had && wanted[shard].incarnation != 0) missing_.push_back(shard);
  }
  targets_ = std::move(wanted);
  return ended;
}

std::vector<ShardId> ShardTargets::TakeNew() { return std::exchange(missing_, {}); }

}  // namespace byteps::protocol
