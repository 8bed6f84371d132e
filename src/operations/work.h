// The values that the rows of the operations (row.h) calculate with. They are plain and borrow.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/operations/cut.h"
#include "src/operations/place.h"
#include "src/wire/tensor_spec.h"

namespace byteps::operations {

// One operation as one rank sees it.
struct Work {
  const wire::TensorSpec& spec;
  std::string_view name;
  Place place;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  uint64_t rows = 0;                 // where sizes are told first: of this rank's input
  std::span<const uint64_t> splits;  // alltoall: of these, those for each place
  // The numbers that the ranks tell each other first: for each place a row of numbers, as many as
  // Row::told says. While they travel they are in the order of Place::turns. A join has this rank
  // here, and later the rank that joined last.
  std::span<uint64_t> table;
  std::byte* gathered = nullptr;  // a result of a size of its own: Layout::result_bytes
};

// A run of bytes.
struct Part {
  uint64_t begin = 0;
  uint64_t bytes = 0;

  friend bool operator==(const Part&, const Part&) = default;
};

// The places of one piece's bytes on this rank.
struct Spans {
  uint32_t piece_bytes = 0;
  uint32_t push_offset = 0;  // in the piece
  ConstByteSpan push;
  uint32_t want_offset = 0;
  ByteSpan want;
};

// The exchange and the place of the result, which are known when all sizes are known.
struct Layout {
  Extent extent;
  uint64_t rows = 0;  // of this rank's result, or of the input if it has no other
  // Row::own_result: the size of the memory that the caller gets for the result.
  uint64_t result_bytes = 0;
  std::vector<int64_t> received_rows;  // by place
  // The bytes that do not travel: they are copied from the input into that memory.
  ConstByteSpan own;
  uint64_t own_offset = 0;
};

// A layout, or the reason why there is none.
struct LaidOut {
  Layout layout;
  Status status;
  // If set, only this rank sees the error: the other ranks wait for it, and must be told.
  bool only_here = false;
};

}  // namespace byteps::operations
