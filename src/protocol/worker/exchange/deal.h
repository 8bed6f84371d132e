// At which shards a tensor's pieces live: every rank computes the same from the dealer's state at
// declaration. Pieces keep their numbers and homes for the life of a declaration, however the next
// use is cut. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/operations/cut.h"
#include "src/plan/piece_assigner.h"
#include "src/wire/control.h"

namespace byteps::protocol {

// What all tensors of a generation have in common.
struct DealOptions {
  std::vector<uint32_t> shard_weights;
  uint32_t piece_bytes_max = 0;
  // Of the generation, those that were lost since included. Ranks, not contributors
  // (docs/decisions/0003-piece-size.md); the coordinator counts the same (control/tensor_dealer.h).
  uint32_t ranks = 1;
  uint32_t piece_bytes = 0;  // of each piece, whatever it belongs to; 0: as suits the ranks

  // The size of the pieces of so many bytes.
  uint32_t PieceBytes(uint64_t bytes) const;
};
DealOptions DealOptionsOf(const wire::View& view);

class Deal {
 public:
  // `placement`: the dealer's state. What was dealt before is forgotten.
  void Begin(std::vector<uint64_t> placement);

  // The pieces of the next exchange: numbers from `first_piece` on. While the cut stays the same,
  // so does everything. `known_pieces`: the coordinator has counted with these pieces; others are
  // dealt one by one, as if each were full. kExhausted: too many pieces.
  Status Cut(const DealOptions& options, const std::string& name, uint32_t first_piece,
             const operations::Extent& extent, uint32_t piece_bytes, bool known_pieces);

  uint32_t first_piece() const { return first_piece_; }
  uint32_t count() const { return cut_->count(); }
  // REQUIRES: first_piece() <= number < first_piece() + count().
  plan::SectionPiece Piece(uint32_t number) const { return cut_->Piece(number - first_piece_); }
  // By number.
  const std::vector<ShardId>& homes() const { return homes_; }

 private:
  Status DealHomes(const DealOptions& options, const std::string& name, bool known_pieces);

  std::vector<uint64_t> placement_;
  uint32_t first_piece_ = 0;
  std::optional<operations::Cut> cut_;
  std::optional<plan::PieceAssigner> dealer_;
  std::vector<ShardId> homes_;
};

}  // namespace byteps::protocol
