#include "src/protocol/worker/lane/pieces.h"

#include <algorithm>

namespace byteps::protocol {

void Pieces::Clear() {
  by_id_.clear();
  tensors_.clear();
}

bool LaneTensor::HoldsAny() const {
  return std::ranges::any_of(pieces, [](const LanePiece& piece) { return piece.held.round != 0; });
}

bool LaneTensor::HoldsUnstable() const {
  return std::ranges::any_of(
      pieces, [](const LanePiece& piece) { return piece.held.round != 0 && !piece.held.stable; });
}

void Pieces::Retire(TensorId tensor) {
  LaneTensor* found = Find(tensor);
  if (found == nullptr) return;
  found->retired = true;
  if (!found->HoldsAny()) Forget(tensor);
}

void Pieces::Forget(TensorId tensor) {
  by_id_.erase(tensor);
  tensors_.erase(tensor);
}

void Pieces::EraseEmpty() {
  std::vector<TensorId> retired;
  for (const auto& [id, tensor] : tensors_) {
    if (tensor->retired) retired.push_back(id);
  }
  for (TensorId tensor : retired) Retire(tensor);
}

LaneTensor* Pieces::Find(TensorId tensor) {
  auto found = by_id_.find(tensor);
  return found == by_id_.end() ? nullptr : found->second;
}

LaneTensor& Pieces::FindOrAdd(const TensorFacts& facts) {
  std::unique_ptr<LaneTensor>& tensor = tensors_[facts.id];
  if (tensor == nullptr) {
    tensor = std::make_unique<LaneTensor>();
    tensor->facts = facts;
    by_id_[facts.id] = tensor.get();
  }
  return *tensor;
}

void Pieces::FindOwner(TensorId tensor, uint32_t number, LanePiece& piece) const {
  piece.owner = kNoShard;
  if (!ownership_.any()) return;
  plan::Owner owner = ownership_.OwnerOf(piece.home, tensor, number);
  piece.owner = owner.shard;
  piece.since = owner.since;
}

void Pieces::Meet(LaneTensor& tensor, const Exchange& exchange) const {
  if (tensor.pieces.size() < exchange.end()) tensor.pieces.resize(exchange.end());
  for (uint32_t number = exchange.first_piece; number < exchange.end(); ++number) {
    LanePiece& piece = tensor.pieces[number];
    if (piece.step != PieceStep::kAway) continue;
    piece.home = (*exchange.homes)[number];
    FindOwner(tensor.facts.id, number, piece);
    if (IsHere(piece)) piece.step = PieceStep::kDone;
  }
}

}  // namespace byteps::protocol
