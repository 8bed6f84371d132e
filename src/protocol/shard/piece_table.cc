#include "src/protocol/shard/piece_table.h"

#include <algorithm>

namespace byteps::protocol {

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
