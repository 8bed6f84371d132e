#include "src/protocol/shard/state/piece_table.h"

#include <algorithm>

namespace byteps::protocol {

void PieceTable::Clear() {
  pieces_.clear();
  retired_.clear();
  of_retired_.clear();
  forgotten_.Clear();
}

void PieceTable::Retire(const std::vector<TensorId>& tensors, uint64_t use) {
  for (TensorId tensor : tensors) retired_.emplace(tensor, use);
  for (const auto& [key, piece] : pieces_) {
    if (IsRetired(piece.tensor)) of_retired_.insert(key);
  }
}

void PieceTable::Forget(const std::vector<TensorId>& tensors) {
  for (TensorId tensor : tensors) {
    retired_.erase(tensor);
    forgotten_.Insert(tensor);
  }
  std::erase_if(of_retired_, [&](uint64_t key) { return !pieces_.contains(key); });
}

size_t PieceTable::unstable_count() const {
  return static_cast<size_t>(std::count_if(pieces_.begin(), pieces_.end(), [](const auto& entry) {
    return !entry.second.verdict.stable();
  }));
}

}  // namespace byteps::protocol
