// How many bytes a tensor has, and how many are too many. Shapes come from users and from peers, so
// nothing here overflows.
#pragma once

#include <cstdint>
#include <optional>

#include "src/wire/control.h"

namespace byteps::protocol {

// More than any machine holds, and far from the end of a 64-bit number.
inline constexpr uint64_t kTensorBytesMax = uint64_t{1} << 48;
// Pieces of one tensor: what every rank and the coordinator can keep a table of.
inline constexpr uint32_t kPiecesMax = uint32_t{1} << 24;

// Bytes of one rank's tensor, of one row for allgather and alltoall, nothing for barrier. No value:
// a negative dimension, or more than kTensorBytesMax.
std::optional<uint64_t> TensorBytes(const wire::TensorSpec& spec);

// `rows` rows of `row_bytes`; no value beyond kTensorBytesMax.
std::optional<uint64_t> RowsBytes(uint64_t rows, uint64_t row_bytes);

}  // namespace byteps::protocol
