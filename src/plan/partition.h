// Cuts a tensor into pieces.
//
// A piece is the unit of placement, transfer and combination. Small pieces fill the pipeline
// sooner (the first answer needs a whole piece from every rank), large ones carry fewer headers;
// PieceBytes finds the size that loses least to both (docs/decisions/0003-piece-size.md).
// Every process computes the same cut from the same numbers, so no piece table is ever sent.
// Values and pure functions; 64-bit offsets throughout.
#pragma once

#include <cstdint>

#include "src/base/status.h"

namespace byteps::plan {

// The cost of a piece beside its payload, in bytes on the wire: header and packet overhead.
inline constexpr uint32_t kPieceHeaderBytes = 64;
// Below this size the cost per piece outweighs the cost per byte.
inline constexpr uint32_t kPieceBytesMin = 4096;
// Small tensors seldom travel alone, so a small tensor counts as part of so many bytes.
inline constexpr uint64_t kTogetherBytes = uint64_t{4} << 20;
// Cuts lie at multiples of this: a cache line, and a multiple of every element size.
inline constexpr uint32_t kPieceUnitBytes = 64;

// Returns the size of the pieces of a tensor of `tensor_bytes` in a generation of `ranks` ranks.
// Process sets and contributors do not change that number; the decision says why. The size is the P
// that minimises ranks * P / B + kPieceHeaderBytes / P, where B is the larger of tensor_bytes and
// kTogetherBytes. It lies between kPieceBytesMin and `piece_bytes_max`, rounded down to a multiple
// of kPieceUnitBytes (at least one unit; `piece_bytes_max` wins over kPieceBytesMin). It may exceed
// a tensor, which then is one piece.
uint32_t PieceBytes(uint64_t tensor_bytes, uint32_t ranks, uint32_t piece_bytes_max);

struct PieceSpan {
  uint64_t offset = 0;
  uint32_t bytes = 0;

  friend bool operator==(const PieceSpan&, const PieceSpan&) = default;
};

// The cut of one tensor. The pieces cover it in order, without gap or overlap; their sizes differ
// by at most kPieceUnitBytes, none exceeds `piece_bytes`, and all but the last are multiples of
// kPieceUnitBytes. A tensor of zero bytes is exactly one empty piece.
class Partition {
 public:
  // kExhausted: the tensor would need more than 2^32 - 1 pieces. `piece_bytes` is rounded down to a
  // multiple of kPieceUnitBytes, and up to one unit.
  static Result<Partition> Cut(uint64_t tensor_bytes, uint32_t piece_bytes);

  uint64_t tensor_bytes() const { return tensor_bytes_; }
  uint32_t count() const { return count_; }

  // REQUIRES: index < count().
  PieceSpan Piece(uint32_t index) const;

  // Returns the piece that holds the byte at `offset`. REQUIRES: offset < tensor_bytes().
  uint32_t IndexOf(uint64_t offset) const;

 private:
  Partition() = default;
  uint64_t FirstUnit(uint32_t index) const;

  uint64_t tensor_bytes_ = 0;
  uint32_t count_ = 1;
  uint32_t small_count_ = 1;  // the first pieces have small_units_, the others one unit more
  uint64_t small_units_ = 0;
};

}  // namespace byteps::plan
