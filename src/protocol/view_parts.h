// Facts that both ends of the data path read out of a view.
#pragma once

#include <memory>
#include <vector>

#include "src/base/slot_set.h"
#include "src/plan/ownership.h"
#include "src/wire/view.h"

namespace byteps::protocol {

inline plan::Ownership OwnershipOf(const wire::View& view) {
  std::vector<plan::ShardState> shards;
  std::vector<uint32_t> placed;
  for (const wire::ServerInfo& server : view.servers) {
    bool as_dealt = server.placed_weights.size() != server.shard_weights.size();
    for (size_t i = 0; i < server.shard_weights.size(); ++i) {
      uint32_t weight = server.shard_weights[i];
      shards.push_back({weight, server.alive, server.since});
      placed.push_back(as_dealt ? weight : server.placed_weights[i]);
    }
  }
  return {std::move(shards), view.began, placed, view.placed};
}

// Returns all workers of the view.
inline Receipt WorkersOf(const wire::View& view) {
  auto all = std::make_shared<SlotSet>();
  for (const wire::WorkerInfo& worker : view.workers) all->Insert(worker.slot);
  return all;
}

}  // namespace byteps::protocol
