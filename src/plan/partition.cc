#include "src/plan/partition.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "src/base/check.h"
#include "src/base/types.h"

namespace byteps::plan {
namespace {

constexpr bool EveryElementDividesTheUnit() {
  for (int type = 0; type < kDataTypeCount; ++type) {
    if (kPieceUnitBytes % SizeOf(static_cast<DataType>(type)) != 0) return false;
  }
  return true;
}
static_assert(EveryElementDividesTheUnit(), "a cut would go through an element");

uint64_t DivideUp(uint64_t numerator, uint64_t denominator) {
  return numerator / denominator + (numerator % denominator != 0 ? 1 : 0);
}

}  // namespace

uint32_t PieceBytes(uint64_t tensor_bytes, uint32_t ranks, uint32_t piece_bytes_max) {
  const uint64_t together = std::max(tensor_bytes, kTogetherBytes);
  const double per_rank = static_cast<double>(together) / std::max(ranks, 1U);
  const double best = std::sqrt(kPieceHeaderBytes * per_rank);
  const double bounded = std::min(std::max(best, static_cast<double>(kPieceBytesMin)),
                                  static_cast<double>(piece_bytes_max));
  const uint32_t units = static_cast<uint32_t>(bounded) / kPieceUnitBytes;
  return std::max(units, 1U) * kPieceUnitBytes;
}

Result<Partition> Partition::Cut(uint64_t tensor_bytes, uint32_t piece_bytes) {
  const uint64_t piece_units = std::max(piece_bytes / kPieceUnitBytes, 1U);
  const uint64_t units = DivideUp(tensor_bytes, kPieceUnitBytes);
  const uint64_t count = std::max<uint64_t>(DivideUp(units, piece_units), 1);
  if (count > UINT32_MAX) {
    return Status(StatusCode::kExhausted,
                  "a tensor of " + std::to_string(tensor_bytes) + " bytes needs " +
                      std::to_string(count) + " pieces of " + std::to_string(piece_bytes) +
                      " bytes, and a tensor may have 4294967295; use larger pieces");
  }
  Partition partition;
  partition.tensor_bytes_ = tensor_bytes;
  partition.count_ = static_cast<uint32_t>(count);
  partition.small_units_ = units / count;
  partition.small_count_ = static_cast<uint32_t>(count - units % count);
  return partition;
}

// The larger pieces come last, because the last one may miss part of its last unit.
uint64_t Partition::FirstUnit(uint32_t index) const {
  const uint64_t extra = index > small_count_ ? index - small_count_ : 0;
  return index * small_units_ + extra;
}

PieceSpan Partition::Piece(uint32_t index) const {
  BYTEPS_CHECK(index < count_);
  const uint64_t begin = FirstUnit(index) * kPieceUnitBytes;
  const uint64_t end = index + 1 == count_ ? tensor_bytes_ : FirstUnit(index + 1) * kPieceUnitBytes;
  return {begin, static_cast<uint32_t>(end - begin)};
}

uint32_t Partition::IndexOf(uint64_t offset) const {
  BYTEPS_CHECK(offset < tensor_bytes_);
  const uint64_t unit = offset / kPieceUnitBytes;
  const uint64_t small_end = small_count_ * small_units_;
  if (unit < small_end) return static_cast<uint32_t>(unit / small_units_);
  return small_count_ + static_cast<uint32_t>((unit - small_end) / (small_units_ + 1));
}

}  // namespace byteps::plan
