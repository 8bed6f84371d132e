#include "src/plan/piece_assigner.h"

#include <algorithm>
#include <string>

#include "src/plan/wide.h"

namespace byteps::plan {
namespace {

// The assigner reduces all loads each time it has dealt this many bytes, so that they never
// overflow.
constexpr uint64_t kSubtractEveryBytes = uint64_t{1} << 40;
constexpr uint64_t kRestoredLoadMax = uint64_t{1} << 62;

}  // namespace

Result<PieceAssigner> PieceAssigner::Create(std::span<const uint32_t> shard_weights,
                                            uint32_t piece_bytes_max) {
  PieceAssigner assigner;
  assigner.weights_.assign(shard_weights.begin(), shard_weights.end());
  for (uint32_t weight : shard_weights) assigner.total_weight_ += weight;
  if (assigner.total_weight_ == 0) {
    return Status(StatusCode::kInvalidArgument,
                  "none of " + std::to_string(shard_weights.size()) +
                      " shards has a weight, so no piece has a place; start a server");
  }
  assigner.loads_.assign(shard_weights.size(), 0);
  assigner.cost_max_ = uint64_t{piece_bytes_max} + kPieceHeaderBytes;
  assigner.previous_ = static_cast<ShardId>(shard_weights.size());
  assigner.due_.reserve(shard_weights.size());
  assigner.ahead_.reserve(shard_weights.size());
  assigner.Rebuild();
  return assigner;
}

// (l_a + L) / w_a > (l_b + L) / w_b
bool PieceAssigner::DueLater(ShardId a, ShardId b) const {
  const Uint128 left = Uint128{loads_[a] + cost_max_} * weights_[b];
  const Uint128 right = Uint128{loads_[b] + cost_max_} * weights_[a];
  return left != right ? left > right : a > b;
}

// l_a / w_a > l_b / w_b
bool PieceAssigner::ReadyLater(ShardId a, ShardId b) const {
  const Uint128 left = Uint128{loads_[a]} * weights_[b];
  const Uint128 right = Uint128{loads_[b]} * weights_[a];
  return left != right ? left > right : a > b;
}

// l > T * w / W
bool PieceAssigner::IsAhead(ShardId shard) const {
  return Uint128{loads_[shard]} * total_weight_ > Uint128{total_load_} * weights_[shard];
}

// Returns whether a shard that is not ahead keeps its balance if a piece of `cost` goes to another
// shard: T * w / W - l + cost <= L.
bool PieceAssigner::MaySkip(ShardId shard, uint64_t cost) const {
  const Uint128 due = Uint128{total_load_} * weights_[shard] + Uint128{cost} * total_weight_;
  return due <= Uint128{loads_[shard] + cost_max_} * total_weight_;
}

void PieceAssigner::PushDue(ShardId shard) {
  due_.push_back(shard);
  std::push_heap(due_.begin(), due_.end(), [this](ShardId a, ShardId b) { return DueLater(a, b); });
}

ShardId PieceAssigner::PopDue() {
  std::pop_heap(due_.begin(), due_.end(), [this](ShardId a, ShardId b) { return DueLater(a, b); });
  const ShardId shard = due_.back();
  due_.pop_back();
  return shard;
}

void PieceAssigner::PushAhead(ShardId shard) {
  ahead_.push_back(shard);
  std::push_heap(ahead_.begin(), ahead_.end(),
                 [this](ShardId a, ShardId b) { return ReadyLater(a, b); });
}

ShardId PieceAssigner::PopAhead() {
  std::pop_heap(ahead_.begin(), ahead_.end(),
                [this](ShardId a, ShardId b) { return ReadyLater(a, b); });
  const ShardId shard = ahead_.back();
  ahead_.pop_back();
  return shard;
}

void PieceAssigner::MoveCaughtUp() {
  while (!ahead_.empty() && !IsAhead(ahead_.front())) PushDue(PopAhead());
}

// Takes the next shard out of its heap. Some shard is always due, because the shares sum to the
// whole and not all shards can be ahead of theirs. A shard that is ahead may take a piece early if
// only the skipped shard is due: that shard is behind by as much as all others together are ahead.
ShardId PieceAssigner::Choose(uint64_t cost) {
  const ShardId best = PopDue();
  if (best != previous_ || !MaySkip(best, cost)) return best;
  if (due_.empty() && ahead_.empty()) return best;
  const ShardId other = due_.empty() ? PopAhead() : PopDue();
  PushDue(best);
  return other;
}

ShardId PieceAssigner::Next(uint32_t piece_bytes) {
  const uint64_t cost = uint64_t{piece_bytes} + kPieceHeaderBytes;
  MoveCaughtUp();
  const ShardId shard = Choose(cost);
  loads_[shard] += cost;
  total_load_ += cost;
  previous_ = shard;
  PushAhead(shard);
  if (total_load_ >= subtract_at_) SubtractWholeTurns();
  return shard;
}

std::vector<ShardId> PieceAssigner::DealTensor(const Partition& partition) {
  std::vector<ShardId> shards;
  shards.reserve(partition.count());
  for (uint32_t index = 0; index < partition.count(); ++index) {
    shards.push_back(Next(partition.Piece(index).bytes));
  }
  return shards;
}

// Subtracts the same multiple of its weight from every load, which changes no comparison above.
void PieceAssigner::SubtractWholeTurns() {
  uint64_t turns = UINT64_MAX;
  for (size_t i = 0; i < loads_.size(); ++i) {
    if (weights_[i] > 0) turns = std::min(turns, loads_[i] / weights_[i]);
  }
  for (size_t i = 0; i < loads_.size(); ++i) loads_[i] -= turns * weights_[i];
  total_load_ -= turns * total_weight_;
  subtract_at_ = total_load_ + kSubtractEveryBytes;
}

void PieceAssigner::Rebuild() {
  due_.clear();
  ahead_.clear();
  for (ShardId shard = 0; shard < weights_.size(); ++shard) {
    if (weights_[shard] > 0) PushAhead(shard);
  }
  subtract_at_ = total_load_ + kSubtractEveryBytes;
}

std::vector<uint64_t> PieceAssigner::State() const {
  std::vector<uint64_t> state = loads_;
  state.push_back(previous_);
  return state;
}

Status PieceAssigner::Restore(std::span<const uint64_t> state) {
  const size_t shards = weights_.size();
  bool fits = state.size() == shards + 1 && state[shards] <= shards;
  uint64_t total = 0;
  for (size_t i = 0; fits && i < shards; ++i) {
    fits = state[i] <= kRestoredLoadMax - total && (weights_[i] > 0 || state[i] == 0);
    total += state[i];
  }
  if (!fits) {
    return Status(StatusCode::kInvalidArgument,
                  "the placement state of " + std::to_string(state.size()) +
                      " numbers does not belong to these " + std::to_string(shards) +
                      " shards; take it from an assigner of the same view");
  }
  loads_.assign(state.begin(), state.end() - 1);
  total_load_ = total;
  previous_ = static_cast<ShardId>(state[shards]);
  Rebuild();
  return Status::Ok();
}

}  // namespace byteps::plan
