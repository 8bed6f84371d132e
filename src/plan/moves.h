// Computes the pieces that a change of the shards' weights moves, and their new shards, as a pure
// function. Every process computes the same from the old and the new weights, so no process needs a
// list of pieces.
//
// A shard whose weight falls keeps that part of the pieces that were dealt to it, and gives the
// others to the shards whose weights rise, in proportion to their gain. No other piece moves. A
// very even sequence decides which pieces go. So each part of a tensor's pieces, and of many small
// tensors, is right to within a few pieces, and the moved pieces are spread over the tensor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/types.h"

namespace byteps::plan {

// A value; one thread at a time.
class Moves {
 public:
  // Nothing moves.
  Moves() = default;
  // Both lists are indexed by ShardId; only the proportions of each count. If a list has no
  // positive weight, nothing moves.
  Moves(std::span<const uint32_t> dealt, std::span<const uint32_t> wanted);

  // Returns the place of a piece that was dealt to `home`; O(log shards).
  ShardId PlaceOf(ShardId home, TensorId tensor, uint32_t piece) const;

 private:
  // Weights in parts of kWeightParts.
  std::vector<uint64_t> dealt_;
  std::vector<uint64_t> kept_;    // never more than dealt
  std::vector<uint64_t> gained_;  // summed up over the shards, this one included
};

}  // namespace byteps::plan
