// Helpers of the kernel tests: every SIMD target in turn, and values that find mistakes.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "src/base/types.h"
#include "src/kernels/kernels.h"
#include "src/kernels/reference_for_test.h"

namespace byteps::kernels {

using reference::Bytes;
using reference::Places;
using reference::ReadAt;
using reference::RowOf;
using reference::WriteAt;

inline constexpr DataType kAllTypes[] = {
    DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBfloat16,
    DataType::kInt8,    DataType::kInt16,   DataType::kInt32,   DataType::kInt64,
    DataType::kUint8,   DataType::kBool};
inline constexpr DataType kFloatTypes[] = {DataType::kFloat32, DataType::kFloat64,
                                           DataType::kFloat16, DataType::kBfloat16};
inline constexpr byteps::Combine kAllHows[] = {byteps::Combine::kSum, byteps::Combine::kMin,
                                               byteps::Combine::kMax, byteps::Combine::kProduct};

// The most bytes a vector of this machine has; lengths to test go past four of them.
inline constexpr size_t kVectorBytesMax = 64;

// Calls `test` with the kernels on each SIMD target that this machine has, then goes back to the
// best one.
template <class Test>
void ForEachTarget(Test test) {
  const auto use = [](int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  };
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  ASSERT_FALSE(targets.empty());
  for (const int64_t target : targets) {
    use(target);
    ASSERT_STREQ(TargetName(), hwy::TargetName(target));
    SCOPED_TRACE(std::string("SIMD target ") + TargetName());
    test();
  }
  use(0);
}

// A stretch of memory at any distance from a cache line, with guard bytes on both sides.
class Placed {
 public:
  Placed(const Bytes& contents, size_t misalignment)
      : size_(contents.size()), storage_(contents.size() + 4 * kGuard, kFill) {
    const size_t past_line = reinterpret_cast<uintptr_t>(storage_.data()) % kGuard;
    begin_ = kGuard + (kGuard - past_line) % kGuard + misalignment % kGuard;
    std::copy(contents.begin(), contents.end(), storage_.begin() + begin_);
  }
  std::byte* data() { return storage_.data() + begin_; }
  Bytes contents() { return Bytes(data(), data() + size_); }
  bool GuardsAreIntact() const {
    for (size_t i = 0; i < storage_.size(); ++i) {
      const bool inside = i >= begin_ && i < begin_ + size_;
      if (!inside && storage_[i] != kFill) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr std::byte kFill{0xa5};
  size_t size_;
  size_t begin_;
  Bytes storage_;
};

// Values where arithmetic goes wrong, as they are stored.
inline std::vector<uint64_t> SpecialBits(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff,
              0xff7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xffffffff, 0x7fc00000, 0xffc12345,
              0x3f800000, 0xbf800000, 0x4b800000, 0x33800000, 0x7f000000};
    case DataType::kFloat64:
      return {0,
              0x8000000000000000,
              1,
              0x000fffffffffffff,
              0x0010000000000000,
              0x7fefffffffffffff,
              0xffefffffffffffff,
              0x7ff0000000000000,
              0xfff0000000000000,
              0x7ff0000000000001,
              0xffffffffffffffff,
              0x7ff8000000000000,
              0x3ff0000000000000,
              0xbff0000000000000,
              0x3ca0000000000000};
    case DataType::kFloat16:
      return {0,      0x8000, 1,      0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff, 0x7c00,
              0xfc00, 0x7c01, 0xffff, 0x7e00, 0xfe12, 0x3c00, 0xbc00, 0x6800, 0x1000};
    case DataType::kBfloat16:
      return {0,      0x8000, 1,      0x8001, 0x007f, 0x0080, 0x7f7f, 0xff7f, 0x7f80,
              0xff80, 0x7f81, 0xffff, 0x7fff, 0x7fc0, 0xffc1, 0x3f80, 0xbf80, 0x4380};
    default:
      return {0,
              1,
              2,
              0x7f,
              0x80,
              0xff,
              0x7fff,
              0x8000,
              0x7fffffff,
              0x80000000,
              ~0ull,
              0x7fffffffffffffff,
              0x8000000000000000};
  }
}

// Random elements: every `special_every`th or so is a special value, the others are of moderate
// size (floats between about 2^-6 and 2^6 for the most part) or any bits at all.
inline Bytes RandomElements(DataType type, size_t count, std::mt19937_64& random,
                            unsigned special_every = 6) {
  const std::vector<uint64_t> special = SpecialBits(type);
  Bytes bytes(count * SizeOf(type));
  reference::WithCodec(type, [&](auto codec) {
    using Codec = decltype(codec);
    using Stored = typename Codec::Stored;
    using Computed = typename Codec::Computed;
    std::normal_distribution<double> normal(0.0, 8.0);
    for (size_t i = 0; i < count; ++i) {
      if (random() % special_every == 0) {
        const uint64_t bits = special[random() % special.size()];
        std::memcpy(bytes.data() + i * sizeof(Stored), &bits, sizeof(Stored));
      } else if (std::is_floating_point_v<Computed> && random() % 8 != 0) {
        WriteAt<Stored>(bytes.data(), i, Codec::Encode(static_cast<Computed>(normal(random))));
      } else {
        const uint64_t bits = random();
        std::memcpy(bytes.data() + i * sizeof(Stored), &bits, sizeof(Stored));
      }
    }
  });
  return bytes;
}

// Fails with the first element that differs.
inline void ExpectSame(DataType type, const Bytes& actual, const Bytes& expected,
                       const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  if (actual == expected) return;
  const size_t size = SizeOf(type);
  for (size_t i = 0; i < actual.size() / size; ++i) {
    uint64_t have = 0;
    uint64_t want = 0;
    std::memcpy(&have, actual.data() + i * size, size);
    std::memcpy(&want, expected.data() + i * size, size);
    if (have == want) continue;
    FAIL() << what << ", " << NameOf(type) << ": element " << i << " of " << actual.size() / size
           << " is 0x" << std::hex << have << " instead of 0x" << want;
  }
}

}  // namespace byteps::kernels
