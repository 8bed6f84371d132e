// The kinds of operations, and what all ranks must agree on in one use of a name. Values.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/types.h"

namespace byteps::wire {

// The kinds of operations; the numbers are those of the C ABI's byteps_op.
enum class Op : uint8_t {
  kSum = 0,
  kAverage = 1,
  kMin = 2,
  kMax = 3,
  kProduct = 4,
  kBroadcast = 5,
  kAllgather = 6,
  kBarrier = 7,
  kReducescatter = 8,
  kAlltoall = 9,
  kJoin = 10,
};
inline constexpr int kOpCount = 11;
// The number of kinds that combine numbers: kSum to kProduct.
inline constexpr int kReductionCount = 5;

// The facts that must be equal on all ranks in one use of a name.
struct TensorSpec {
  Op op = Op::kSum;
  DataType dtype = DataType::kFloat32;
  uint32_t root = 0;           // rank; broadcast only
  std::vector<int64_t> shape;  // allgather, alltoall: without the first dimension
  bool atomic = false;         // one receipt for the whole tensor
  Op combine = Op::kSum;       // reducescatter only
  uint32_t process_set = 0;    // the process set whose ranks take part; 0: all ranks
  std::string detail;          // other facts that must be equal, as a text for people
  uint8_t codec = 0;           // how its pieces are encoded (data.h); 0: they are not
  friend auto operator<=>(const TensorSpec&, const TensorSpec&) = default;
};
// Receivers refuse a longer detail.
inline constexpr size_t kDetailBytesMax = 1024;
// Limits of a declaration. Together they stay far below kControlBytesMax, and so does a text that
// quotes the declaration of every rank.
inline constexpr size_t kNameBytesMax = 4096;
inline constexpr size_t kDimensionsMax = 255;

}  // namespace byteps::wire
