// Who owns a piece in a view, and since when, as a pure function: every process computes the same
// from the same view, so nobody has to be told where a piece went.
//
// A piece is dealt to a shard when its tensor is declared (piece_assigner.h): its home. Its place
// is its home, or where moves.h puts it since the links were found to be other than they were taken
// for. While the shard of its place is alive, that owns the piece. Otherwise the owner is the first
// living shard in an order that depends on the piece alone, in which a shard stands the further
// ahead the more weight it has. So when a shard dies, only its own pieces move, spread over all
// others by weight; and when it comes back, only those return.
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
  // The epoch of the view that last changed the owner: messages of older epochs do not count.
  uint64_t since = 0;
  friend bool operator==(const Owner&, const Owner&) = default;
};

// A value; one thread at a time.
class Ownership {
 public:
  Ownership() = default;
  // `shards` is indexed by ShardId. `began`: the epoch with which the generation began.
  Ownership(std::vector<ShardState> shards, uint64_t began);
  // `placed`: the epoch since which shards own what `wanted` says instead of their weights. All
  // pieces count as moved in it, also those that stay where they are: what is known of a piece
  // before must not depend on how many such epochs a process has seen. 0: nothing has moved.
  Ownership(std::vector<ShardState> shards, uint64_t began, std::span<const uint32_t> wanted,
            uint64_t placed);

  // False when no shard lives: nobody owns anything until one comes.
  bool any() const { return living_ > 0; }

  // O(log shards) while the shard of its place lives, O(shards) otherwise. REQUIRES: any(), home <
  // the number of shards.
  Owner OwnerOf(ShardId home, TensorId tensor, uint32_t piece) const;

  std::span<const ShardState> shards() const { return shards_; }
  uint64_t began() const { return began_; }

 private:
  std::vector<ShardState> shards_;
  uint64_t began_ = 0;
  uint64_t settled_ = 0;  // the later one of `began` and `placed`
  Moves moves_;
  uint32_t living_ = 0;
  uint32_t weight_unit_ = 1;  // so many of weight are one ticket in the draw
};

}  // namespace byteps::plan
