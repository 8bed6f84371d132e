#include "src/protocol/shard/piece_table.h"

#include <algorithm>

namespace byteps::protocol {

Piece* PieceTable::Find(const wire::PieceRef& ref) {
  auto found = pieces_.find(KeyOf(ref));
  return found == pieces_.end() ? nullptr : &found->second;
}

const Piece* PieceTable::Find(const wire::PieceRef& ref) const {
  auto found = pieces_.find(KeyOf(ref));
  return found == pieces_.end() ? nullptr : &found->second;
}

Piece& PieceTable::At(const wire::PieceRef& ref, ShardId home, uint64_t since) {
  Piece& piece = pieces_[KeyOf(ref)];
  piece.tensor = ref.tensor;
  piece.index = ref.piece;
  piece.home = home;
  piece.since = since;
  return piece;
}

Piece* PieceTable::FindOpen(const wire::PieceRef& ref) {
  Piece* piece = Find(ref);
  return piece != nullptr && piece->round != nullptr && piece->round->ref() == ref ? piece
                                                                                   : nullptr;
}

void PieceTable::Clear() {
  pieces_.clear();
  retired_.clear();
}

size_t PieceTable::unstable_count() const {
  return static_cast<size_t>(std::count_if(pieces_.begin(), pieces_.end(), [](const auto& entry) {
    return !entry.second.verdict.stable();
  }));
}

}  // namespace byteps::protocol
