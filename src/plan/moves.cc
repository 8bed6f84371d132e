#include "src/plan/moves.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/plan/placement.h"

namespace byteps::plan {
namespace {

// The golden section, and the second number of its family. With such steps a sequence modulo 1
// stays even in all its parts.
constexpr uint32_t kStepOfPieces = 0x9e3779b9;
constexpr uint32_t kStepOfTensors = 0xc13fa9a9;

std::vector<uint64_t> InParts(std::span<const uint32_t> weights) {
  uint64_t total = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  std::vector<uint64_t> parts;
  if (total == 0) return parts;
  for (uint32_t weight : weights) parts.push_back(uint64_t{weight} * kWeightParts / total);
  return parts;
}

}  // namespace

Moves::Moves(std::span<const uint32_t> dealt, std::span<const uint32_t> wanted) {
  std::vector<uint64_t> from = InParts(dealt);
  std::vector<uint64_t> to = InParts(wanted);
  if (from.empty() || from.size() != to.size()) return;
  uint64_t gained = 0;
  for (size_t shard = 0; shard < from.size(); ++shard) {
    kept_.push_back(std::min(from[shard], to[shard]));
    gained += to[shard] - kept_[shard];
    gained_.push_back(gained);
  }
  if (gained == 0) {
    kept_.clear();
    gained_.clear();
    return;
  }
  dealt_ = std::move(from);
}

ShardId Moves::PlaceOf(ShardId home, TensorId tensor, uint32_t piece) const {
  if (home >= dealt_.size() || kept_[home] == dealt_[home]) return home;
  const uint32_t turn = tensor * kStepOfTensors + piece * kStepOfPieces;
  const uint64_t at = (turn * dealt_[home]) >> 32;
  if (at < kept_[home]) return home;
  const uint64_t lost = dealt_[home] - kept_[home];
  const uint64_t of_gained = (at - kept_[home]) * gained_.back() / lost;
  return static_cast<ShardId>(std::ranges::upper_bound(gained_, of_gained) - gained_.begin());
}

}  // namespace byteps::plan
