// Values that describe a window and the uses of its blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/types.h"
#include "src/local/rank_set.h"

namespace byteps::local {

struct WindowShape {
  uint32_t ranks = 1;
  uint32_t blocks = 5;                     // includes the reserve, which is the last one
  size_t block_bytes = size_t{512} << 10;  // of each rank; a multiple of 64
  friend bool operator==(const WindowShape&, const WindowShape&) = default;
};

// One use of a block.
struct BlockUse {
  RankSet ranks = 0;  // the ranks that take part; each must release the block
  RankSet bring = 0;  // the ranks of these that fill a part; at least one
  size_t bytes = 0;   // of each part, and of the result
  DataType type = DataType::kFloat32;
  // kOverlay: the ranks sum nothing. All parts are the same memory, in which each rank fills a span
  // of its own.
  Combine how = Combine::kSum;
  uint32_t divisor = 1;  // of an average
  // The piece that the use collects; the window only carries these numbers to the readers.
  TensorId tensor = 0;
  uint32_t piece = 0;
  uint32_t generation = 0;
  uint64_t round = 0;
};

// A use that the carrier has admitted. Numbers start at 1 and are never used again.
struct AdmittedUse {
  uint64_t number = 0;
  uint32_t block = 0;
  uint64_t after = 0;
  BlockUse use;
};

enum class Decision : uint8_t { kOpen, kSum, kError };

}  // namespace byteps::local
