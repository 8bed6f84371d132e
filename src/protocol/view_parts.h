// What both ends of the data path read out of a view.
#pragma once

#include <memory>
#include <vector>

#include "src/plan/ownership.h"
#include "src/protocol/slot_set.h"
#include "src/wire/control.h"

namespace byteps::protocol {

inline plan::Ownership OwnershipOf(const wire::View& view) {
  std::vector<plan::ShardState> shards;
  for (const wire::ServerInfo& server : view.servers) {
    for (uint32_t weight : server.shard_weights) {
      shards.push_back({weight, server.alive, server.since});
    }
  }
  return {std::move(shards), view.began};
}

// All workers of the view.
inline Receipt WorkersOf(const wire::View& view) {
  auto all = std::make_shared<SlotSet>();
  for (const wire::WorkerInfo& worker : view.workers) all->Insert(worker.slot);
  return all;
}

}  // namespace byteps::protocol
