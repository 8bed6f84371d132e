// What blocks of a window are used for. Values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/types.h"
#include "src/local/rank_set.h"

namespace byteps::local {

struct WindowShape {
  uint32_t ranks = 1;
  uint32_t blocks = 5;                     // with the reserve, which is the last one
  size_t block_bytes = size_t{512} << 10;  // of each rank; a multiple of 64
  friend bool operator==(const WindowShape&, const WindowShape&) = default;
};

// What a block is used for.
struct BlockUse {
  RankSet ranks = 0;  // who takes part; each must release it
  RankSet bring = 0;  // of these: who fills a part; at least one
  size_t bytes = 0;   // of each part, and of the result
  DataType type = DataType::kFloat32;
  // kOverlay: nothing is summed; all parts are the same memory, in which each fills a span of its
  // own.
  Combine how = Combine::kSum;
  uint32_t divisor = 1;  // of an average
  // What is collected; for who reads.
  TensorId tensor = 0;
  uint32_t piece = 0;
  uint32_t generation = 0;
  uint64_t round = 0;
};

// A use that was admitted. Numbers start at 1 and are never used again.
struct AdmittedUse {
  uint64_t number = 0;
  uint32_t block = 0;
  uint64_t after = 0;
  BlockUse use;
};

enum class Decision : uint8_t { kOpen, kSum, kError };

}  // namespace byteps::local
