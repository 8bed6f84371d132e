// Deals pieces to shards in proportion to their weights, the same on every process.
//
// A piece costs its bytes and its header. Two promises, for weights w_i of total W, loads l_i of
// total T, and L the cost of the largest piece:
//
//   * Balance: at every moment |l_i - T * w_i / W| <= L. No shard is ever more than one piece
//     ahead of its share, or behind it, so heavy shards get no long runs and light ones are not
//     saved up for the end.
//   * Spread: a piece goes to another shard than the one before it, unless that shard is so far
//     behind (it has most of the weight, or small pieces follow large ones) that the balance
//     would break. Equal shards never get two equal pieces in a row.
//
// The rule: among the shards that are not ahead of their share the piece goes to the one that
// would fall behind by L first, that with the smallest (l_i + L) / w_i; ties go to the lowest id.
// docs/decisions/0004-placement.md has the proof. Integers only (128-bit products);
// O(log shards) per piece. A value: copyable, one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/plan/partition.h"

namespace byteps::plan {

class PieceAssigner {
 public:
  // `shard_weights` is indexed by ShardId (see ShardWeights); a shard of weight 0 gets nothing.
  // kInvalidArgument when no weight is positive.
  static Result<PieceAssigner> Create(std::span<const uint32_t> shard_weights,
                                      uint32_t piece_bytes_max);

  // Returns the shard of the next piece. Pieces may be larger than `piece_bytes_max`, but the
  // balance is then only as fine as they are.
  ShardId Next(uint32_t piece_bytes);

  // Returns the shards of all pieces of a tensor, in order; the same as Next for each.
  std::vector<ShardId> DealTensor(const Partition& partition);

  // Returns everything that decides future pieces, in numbers that can be sent: one load per shard,
  // then the shard of the last piece (the number of shards if there is none). An assigner of the
  // same weights and piece_bytes_max that restores these numbers deals the same pieces.
  std::vector<uint64_t> State() const;
  // Takes over the numbers of State(). kInvalidArgument, and no change: they are no State() of
  // these weights.
  Status Restore(std::span<const uint64_t> state);

 private:
  PieceAssigner() = default;

  // Heap orders: the worst first, as the standard heap functions need it.
  bool DueLater(ShardId a, ShardId b) const;
  bool ReadyLater(ShardId a, ShardId b) const;
  bool IsAhead(ShardId shard) const;
  bool MaySkip(ShardId shard, uint64_t cost) const;

  void PushDue(ShardId shard);
  void PushAhead(ShardId shard);
  ShardId PopDue();
  ShardId PopAhead();
  void MoveCaughtUp();
  ShardId Choose(uint64_t cost);
  void SubtractWholeTurns();
  void Rebuild();

  std::vector<uint32_t> weights_;
  std::vector<uint64_t> loads_;
  uint64_t total_weight_ = 0;
  uint64_t total_load_ = 0;
  uint64_t cost_max_ = 0;       // L
  uint64_t subtract_at_ = 0;    // total_load_ at which the assigner subtracts whole turns
  ShardId previous_ = 0;        // weights_.size() when there is none
  std::vector<ShardId> due_;    // heap: not ahead of their share, most urgent on top
  std::vector<ShardId> ahead_;  // heap: ahead of their share, first to be caught up on top
};

}  // namespace byteps::plan
