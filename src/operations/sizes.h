// Computes and limits the bytes of tensors. Shapes come from users and from peers, so nothing here
// overflows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "src/wire/tensor_spec.h"

namespace byteps::operations {

// The limit of a tensor is more than any machine holds, and far from the end of a 64-bit number.
inline constexpr uint64_t kTensorBytesMax = uint64_t{1} << 48;
// The most pieces of one tensor: every rank and the coordinator can keep a table of so many.
inline constexpr uint32_t kPiecesMax = uint32_t{1} << 24;

// Returns the bytes of one rank's tensor, or of one row if each rank has a number of rows of its
// own. No value: a dimension is negative, or there are more than kTensorBytesMax.
std::optional<uint64_t> TensorBytes(const wire::TensorSpec& spec);

// Returns the bytes of `rows` rows of `row_bytes`; no value beyond kTensorBytesMax.
std::optional<uint64_t> RowsBytes(uint64_t rows, uint64_t row_bytes);

// Returns the bytes of this rank's input, which has `rows` rows if each rank has its own number of
// them. No value in the cases of TensorBytes.
std::optional<uint64_t> InputBytes(const wire::TensorSpec& spec, uint64_t rows);

// Returns the bytes whose pieces the coordinator can deal when the tensor is declared. If ranks
// tell sizes first, the coordinator knows of no bytes yet. No value in the cases of TensorBytes.
std::optional<uint64_t> DeclaredBytes(const wire::TensorSpec& spec);

// Stands in place of the numbers of a rank that has joined. The rank takes no part, but its
// contributor does, and the contributor tells the sizes of all its ranks together.
inline constexpr uint64_t kTakesNoPart = UINT64_MAX;

// Returns how many of `rows` scattered rows come before the rows of the rank at `place` of `count`.
// If the ranks cannot get equal numbers, earlier ranks get one row more.
constexpr uint64_t RowsBefore(uint64_t rows, uint64_t place, uint64_t count) {
  return rows / count * place + std::min(place, rows % count);
}

}  // namespace byteps::operations
