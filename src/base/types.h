// The words of the domain that every layer shares. docs/glossary.md explains them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace byteps {

using ByteSpan = std::span<std::byte>;
using ConstByteSpan = std::span<const std::byte>;

// Returns whether the two have a byte in common.
inline bool Overlap(ConstByteSpan a, ConstByteSpan b) {
  std::less<> before;  // of pointers into different objects, too
  return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) &&
         before(b.data(), a.data() + a.size());
}

// A contributor's place in the job: kept for life, never renumbered; a hole stays a hole.
using Slot = uint32_t;
// A shard's number across all servers of the job: dense, 0-based.
using ShardId = uint32_t;
// The coordinator's number for a declared tensor; never reused within a job.
using TensorId = uint32_t;

inline constexpr uint32_t kNoSlot = UINT32_MAX;

enum class Role : uint8_t { kWorker = 0, kServer = 1, kCoordinator = 2 };

// The input and the output of an operation lie in the host's memory or in a device's.
enum class Memory : uint8_t { kHost, kDevice };

// The numbers are part of the C ABI and of the wire format: never renumber.
enum class DataType : uint8_t {
  kFloat32 = 0,
  kFloat64 = 1,
  kFloat16 = 2,
  kBfloat16 = 3,
  kInt8 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kUint8 = 8,
  kBool = 9,
};
inline constexpr int kDataTypeCount = 10;

constexpr size_t SizeOf(DataType type) {
  switch (type) {
    case DataType::kFloat64:
    case DataType::kInt64: return 8;
    case DataType::kFloat32:
    case DataType::kInt32: return 4;
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kInt16: return 2;
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kBool: return 1;
  }
  return 1;
}

constexpr const char* NameOf(DataType type) {
  switch (type) {
    case DataType::kFloat32: return "float32";
    case DataType::kFloat64: return "float64";
    case DataType::kFloat16: return "float16";
    case DataType::kBfloat16: return "bfloat16";
    case DataType::kInt8: return "int8";
    case DataType::kInt16: return "int16";
    case DataType::kInt32: return "int32";
    case DataType::kInt64: return "int64";
    case DataType::kUint8: return "uint8";
    case DataType::kBool: return "bool";
  }
  return "unknown";
}

// A Combine turns the contributions to a piece into its verdict. The numbers are part of the wire
// format: never renumber.
enum class Combine : uint8_t {
  kSum = 0,
  kMin = 1,
  kMax = 2,
  kProduct = 3,
  kOverlay = 4,  // each contribution is laid at its own offset; bit patterns are kept
  kAverage = 5,  // the sum, divided by the number of contributions in it
  kLast = 6,     // the contribution that came last; only join uses it
};
inline constexpr int kCombineCount = 7;

}  // namespace byteps
