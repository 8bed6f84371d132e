// Computes the owner of a piece in a view, and since when it owns the piece, as a pure function.
// Every process computes the same from the same view, so no process has to be told where a piece
// went.
//
// A piece is dealt to a shard when its tensor is declared (piece_assigner.h): its home. Its place
// is its home, or the shard to which moves.h moves it after the links turned out to have other
// rates. While the shard of its place is alive, that shard owns the piece. Otherwise the owner is
// the first living shard in an order that depends on the piece alone; a shard with more weight
// tends to stand further ahead. So when a shard dies, only its own pieces move, spread over all
// other shards by weight. When it comes back, only these pieces return.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/types.h"
#include "src/plan/moves.h"

namespace byteps::plan {

struct ShardState {
  uint32_t weight = 1;  // its share of the bytes
  bool alive = true;
  uint64_t since = 0;  // the epoch in which `alive` took its value
};

struct Owner {
  ShardId shard = 0;
  // The epoch of the view that last changed the owner. Messages of older epochs do not count.
  uint64_t since = 0;
  friend bool operator==(const Owner&, const Owner&) = default;
};

// A value; one thread at a time.
class Ownership {
 public:
  Ownership() = default;
  // `shards` is indexed by ShardId. `began`: the epoch with which the generation began.
  Ownership(std::vector<ShardState> shards, uint64_t began);
  // `placed`: the epoch since which `wanted` decides what shards own, instead of their weights. All
  // pieces count as moved in that epoch, including pieces that stay where they are, because the
  // history of a piece must not depend on how many such epochs a process has seen. 0: nothing has
  // moved.
  Ownership(std::vector<ShardState> shards, uint64_t began, std::span<const uint32_t> wanted,
            uint64_t placed);

  // Returns whether a shard lives. If none does, no piece has an owner until one comes.
  bool any() const { return living_ > 0; }

  // Returns the owner of a piece. O(log shards) while the shard of its place lives, O(shards)
  // otherwise. REQUIRES: any(), home < the number of shards.
  Owner OwnerOf(ShardId home, TensorId tensor, uint32_t piece) const;

  std::span<const ShardState> shards() const { return shards_; }
  uint64_t began() const { return began_; }

 private:
  std::vector<ShardState> shards_;
  uint64_t began_ = 0;
  uint64_t settled_ = 0;  // the later one of `began` and `placed`
  Moves moves_;
  uint32_t living_ = 0;
  uint32_t weight_unit_ = 1;  // the weight of one ticket in the draw
};

}  // namespace byteps::plan
