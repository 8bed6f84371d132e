// How an operation's bytes are cut into pieces: one run of bytes, or sections one behind the other,
// each of which goes to another receiver and so has pieces of its own.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "src/base/status.h"
#include "src/plan/partition.h"
#include "src/plan/sections.h"

namespace byteps::operations {

// What is to be cut. A value that needs no memory where there are no sections.
struct Extent {
  uint64_t bytes = 0;              // in all
  std::vector<uint64_t> sections;  // bytes of each; none: one run

  friend bool operator==(const Extent&, const Extent&) = default;
};

// Copies of a cut are cuts. Never without a piece: what has no bytes is one empty piece.
class Cut {
 public:
  // Pieces of at most `piece_bytes`. kExhausted: there would be more than 2^32 - 1.
  static Result<Cut> Make(Extent extent, uint32_t piece_bytes);
  // All in one piece. REQUIRES: extent.bytes <= UINT32_MAX - plan::kPieceUnitBytes.
  static Cut Whole(uint64_t bytes);

  uint32_t count() const;
  // Of a run: in its only section. REQUIRES: index < count().
  plan::SectionPiece Piece(uint32_t index) const;
  // Whether a cut of these would have the same pieces.
  bool Is(const Extent& extent, uint32_t piece_bytes) const {
    return piece_bytes_ == piece_bytes && extent_ == extent;
  }
  // Of a run; nullptr for sections.
  const plan::Partition* run() const { return std::get_if<plan::Partition>(&pieces_); }

 private:
  using Pieces = std::variant<plan::Partition, plan::Sections>;
  Cut(Extent extent, uint32_t piece_bytes, Pieces pieces)
      : extent_(std::move(extent)), piece_bytes_(piece_bytes), pieces_(std::move(pieces)) {}

  Extent extent_;
  uint32_t piece_bytes_;
  Pieces pieces_;
};

}  // namespace byteps::operations
