// The shards at which a tensor's pieces live. Every rank computes the same shards from the dealer's
// state at declaration. Pieces keep their numbers and homes for the life of a declaration, however
// the next use is cut. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/operations/cut.h"
#include "src/plan/piece_assigner.h"
#include "src/wire/view.h"

namespace byteps::protocol {

// The options that all tensors of a generation have in common.
struct DealOptions {
  std::vector<uint32_t> shard_weights;
  uint32_t piece_bytes_max = 0;
  // The number of ranks of the generation, with the ranks that were lost since. It counts ranks,
  // not contributors (docs/decisions/0003-piece-size.md). The coordinator counts the same
  // (control/names/tensor_dealer.h).
  uint32_t ranks = 1;
  uint32_t piece_bytes = 0;  // size of every piece; 0: PieceBytes chooses by the number of ranks

  // Returns the size of the pieces into which `bytes` bytes are cut.
  uint32_t PieceBytes(uint64_t bytes) const;
};
DealOptions DealOptionsOf(const wire::View& view);

class Deal {
 public:
  // Forgets what was dealt before, and begins with the dealer's state `placement`.
  void Begin(std::vector<uint64_t> placement);

  // Cuts the next exchange into pieces, with numbers from `first_piece` on. While the cut stays the
  // same, nothing changes. `known_pieces`: the coordinator has counted with these pieces. Other
  // pieces are dealt one by one, as if each were full. kExhausted: there are too many pieces.
  Status Cut(const DealOptions& options, const std::string& name, uint32_t first_piece,
             const operations::Extent& extent, uint32_t piece_bytes, bool known_pieces);

  uint32_t first_piece() const { return first_piece_; }
  uint32_t count() const { return cut_->count(); }
  // REQUIRES: first_piece() <= number < first_piece() + count().
  plan::SectionPiece Piece(uint32_t number) const { return cut_->Piece(number - first_piece_); }
  // Returns the home of each piece, by the piece's number.
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
