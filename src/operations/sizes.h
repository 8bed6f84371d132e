// How many bytes a tensor has, and how many are too many. Shapes come from users and from peers, so
// nothing here overflows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "src/wire/control.h"

namespace byteps::operations {

// More than any machine holds, and far from the end of a 64-bit number.
inline constexpr uint64_t kTensorBytesMax = uint64_t{1} << 48;
// Pieces of one tensor: what every rank and the coordinator can keep a table of.
inline constexpr uint32_t kPiecesMax = uint32_t{1} << 24;

// Bytes of one rank's tensor; of one row where each rank has a number of rows of its own. No value:
// a negative dimension, or more than kTensorBytesMax.
std::optional<uint64_t> TensorBytes(const wire::TensorSpec& spec);

// `rows` rows of `row_bytes`; no value beyond kTensorBytesMax.
std::optional<uint64_t> RowsBytes(uint64_t rows, uint64_t row_bytes);

// Bytes of this rank's input, with so many rows where each rank has its own number. No value as
// above.
std::optional<uint64_t> InputBytes(const wire::TensorSpec& spec, uint64_t rows);

// Bytes whose pieces the coordinator can deal when the tensor is declared; where sizes are told
// first it knows of nothing yet. No value as above.
std::optional<uint64_t> DeclaredBytes(const wire::TensorSpec& spec);

// In place of what a rank tells the others first: it has joined, so it takes no part, though its
// contributor does, which tells the sizes of all its ranks together.
inline constexpr uint64_t kTakesNoPart = UINT64_MAX;

// Rows that are scattered: those of `rows` that come before the rows of the rank at `place` of
// `count`. Earlier ranks get one more when they cannot be equal.
constexpr uint64_t RowsBefore(uint64_t rows, uint64_t place, uint64_t count) {
  return rows / count * place + std::min(place, rows % count);
}

}  // namespace byteps::operations
