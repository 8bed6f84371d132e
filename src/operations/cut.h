// Cuts an operation's bytes into pieces. The bytes are one run, or sections one behind the other.
// Each section goes to another receiver, so it has pieces of its own.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "src/base/status.h"
#include "src/plan/partition.h"
#include "src/plan/sections.h"

namespace byteps::operations {

// The bytes to be cut. A value; without sections it needs no memory.
struct Extent {
  uint64_t bytes = 0;              // of all sections together
  std::vector<uint64_t> sections;  // bytes of each; none: one run

  friend bool operator==(const Extent&, const Extent&) = default;
};

// A value. A cut always has a piece: an extent without bytes is one empty piece.
class Cut {
 public:
  // Cuts pieces of at most `piece_bytes`. kExhausted: there would be more than 2^32 - 1.
  static Result<Cut> Make(Extent extent, uint32_t piece_bytes);
  // Makes one piece of all bytes. REQUIRES: bytes <= UINT32_MAX - plan::kPieceUnitBytes.
  static Cut Whole(uint64_t bytes);

  uint32_t count() const;
  // Returns the piece and its section; a run is one section. REQUIRES: index < count().
  plan::SectionPiece Piece(uint32_t index) const;
  // Returns whether a cut of `extent` and `piece_bytes` would have the same pieces.
  bool Is(const Extent& extent, uint32_t piece_bytes) const {
    return piece_bytes_ == piece_bytes && extent_ == extent;
  }
  // Returns the partition of a run; nullptr for sections.
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
