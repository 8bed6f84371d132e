#include "src/plan/ownership.h"

#include <algorithm>
#include <utility>

namespace byteps::plan {
namespace {

// The tickets of the heaviest shard. So many make the shares right to within some percent.
constexpr uint32_t kTicketsMax = 16;

uint64_t Mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Returns the best of a shard's tickets for a piece. Shards without weight have none.
uint64_t BestTicket(uint64_t piece_key, ShardId shard, uint32_t tickets) {
  uint64_t best = 0;
  for (uint32_t i = 0; i < tickets; ++i) {
    best = std::max(best, Mix(piece_key + Mix((uint64_t{shard} << 8) + i + 1)) | 1);
  }
  return best;
}

}  // namespace

Ownership::Ownership(std::vector<ShardState> shards, uint64_t began)
    : shards_(std::move(shards)), began_(began), settled_(began) {
  uint32_t heaviest = 1;
  for (const ShardState& shard : shards_) {
    heaviest = std::max(heaviest, shard.weight);
    if (shard.alive) ++living_;
  }
  weight_unit_ = (heaviest + kTicketsMax - 1) / kTicketsMax;
}

Ownership::Ownership(std::vector<ShardState> shards, uint64_t began,
                     std::span<const uint32_t> wanted, uint64_t placed)
    : Ownership(std::move(shards), began) {
  if (placed == 0) return;
  std::vector<uint32_t> dealt;
  for (const ShardState& shard : shards_) dealt.push_back(shard.weight);
  moves_ = Moves(dealt, wanted);
  settled_ = std::max(began, placed);
}

Owner Ownership::OwnerOf(ShardId home, TensorId tensor, uint32_t piece) const {
  const ShardId place = moves_.PlaceOf(home, tensor, piece);
  const ShardState& first = shards_[place];
  if (first.alive) return {place, std::max(settled_, first.since)};
  uint64_t key = Mix((uint64_t{tensor} << 32) | piece);
  // A shard without weight stands behind all others, but it can own a piece if it is the only one.
  auto rank = [&](ShardId shard) {
    uint32_t tickets = (shards_[shard].weight + weight_unit_ - 1) / weight_unit_;
    return std::pair(BestTicket(key, shard, tickets), shard);
  };
  std::pair<uint64_t, ShardId> best{0, 0};
  bool found = false;
  for (ShardId shard = 0; shard < shards_.size(); ++shard) {
    if (!shards_[shard].alive) continue;
    if (!std::exchange(found, true) || rank(shard) > best) best = rank(shard);
  }
  // The last change was the death or the return of the owner or of a shard before it in the order.
  // All shards before it are dead now.
  Owner owner{best.second, std::max({settled_, first.since, shards_[best.second].since})};
  for (ShardId shard = 0; shard < shards_.size(); ++shard) {
    if (shards_[shard].since <= owner.since || shards_[shard].alive) continue;
    if (rank(shard) > best) owner.since = shards_[shard].since;
  }
  return owner;
}

}  // namespace byteps::plan
