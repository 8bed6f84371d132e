#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "src/kernels/kernels.h"
#include "src/kernels/kernels_for_test.h"

namespace byteps::kernels {
namespace {

// Quotient toward minus infinity, by another way than the kernel's.
template <class T>
T FloorDivide(T value, uint32_t divisor) {
  const int64_t wide = value;
  return static_cast<T>(wide >= 0 ? wide / divisor : -1 - (-1 - wide) / divisor);
}

template <class T>
T SaturatedMultiply(T value, double factor) {
  const long double product = static_cast<double>(value) * factor;
  if (std::isnan(product)) return 0;
  const long double most = std::numeric_limits<T>::max();
  const long double least = std::numeric_limits<T>::min();
  return static_cast<T>(std::trunc(std::fmin(std::fmax(product, least), most)));
}

Bytes ReferenceDivide(DataType type, const Bytes& data, uint32_t divisor) {
  return reference::Transform(
      type, data, [&](auto value) { return value / static_cast<decltype(value)>(divisor); },
      [&](auto value) { return FloorDivide(value, divisor); });
}

Bytes ReferenceScale(DataType type, const Bytes& data, double factor) {
  return reference::Transform(
      type, data, [&](auto value) { return value * static_cast<decltype(value)>(factor); },
      [&](auto value) { return SaturatedMultiply(value, factor); });
}

void CheckDivide(DataType type, const Bytes& data, uint32_t divisor, size_t misalignment) {
  const Bytes expected = ReferenceDivide(type, data, divisor);
  ForEachTarget([&] {
    Placed placed(data, misalignment);
    DivideByCount(type, placed.data(), data.size() / SizeOf(type), divisor);
    ExpectSame(type, placed.contents(), expected, "division by " + std::to_string(divisor));
    EXPECT_TRUE(placed.GuardsAreIntact());
  });
}

void CheckScale(DataType type, const Bytes& data, double factor, size_t misalignment) {
  const Bytes expected = ReferenceScale(type, data, factor);
  ForEachTarget([&] {
    Placed placed(data, misalignment);
    Scale(type, placed.data(), data.size() / SizeOf(type), factor);
    ExpectSame(type, placed.contents(), expected, "scaling by " + std::to_string(factor));
    EXPECT_TRUE(placed.GuardsAreIntact());
  });
}

TEST(TransformTest, EveryLengthUpToFourVectorsAndMore) {
  std::mt19937_64 random(1);
  for (DataType type : kAllTypes) {
    const size_t lanes = kVectorBytesMax / SizeOf(type);
    for (size_t count = 0; count <= 4 * lanes + 3; ++count) {
      const Bytes data = RandomElements(type, count, random);
      CheckDivide(type, data, 3, count);
      if (type != DataType::kBool) CheckScale(type, data, -1.7, count);
    }
  }
}

TEST(TransformTest, DividesByAnyCount) {
  std::mt19937_64 random(2);
  for (DataType type : kAllTypes) {
    for (uint32_t divisor : {1u, 2u, 3u, 7u, 8u, 255u, 1000u, 65537u, 1u << 24, UINT32_MAX}) {
      CheckDivide(type, RandomElements(type, 5003, random), divisor, divisor);
    }
  }
}

TEST(TransformTest, ScalesByAnyFactor) {
  std::mt19937_64 random(3);
  const double infinity = std::numeric_limits<double>::infinity();
  for (DataType type : kAllTypes) {
    if (type == DataType::kBool) continue;
    for (double factor : {0.0, -0.0, 1.0, -1.0, 0.5, 1.0 / 3, 1e-30, 1e30, -1e300, 1e-300, infinity,
                          -infinity, std::numeric_limits<double>::quiet_NaN()}) {
      CheckScale(type, RandomElements(type, 3001, random), factor, 1);
    }
  }
}

TEST(TransformTest, EveryHalfDividedAndScaled) {
  constexpr size_t kAll = 1 << 16;
  Bytes every(kAll * 2);
  for (size_t i = 0; i < kAll; ++i) WriteAt<uint16_t>(every.data(), i, static_cast<uint16_t>(i));
  for (DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    for (uint32_t divisor : {2u, 3u, 5u, 6u, 64u, 1000u}) CheckDivide(type, every, divisor, 0);
    for (double factor : {0.5, 3.0, 1.0 / 1024, 1024.0}) CheckScale(type, every, factor, 0);
  }
}

TEST(TransformTest, AveragesRoundTowardMinusInfinity) {
  std::vector<int32_t> values = {7, -7, 8, -8, 1, -1, INT32_MAX, INT32_MIN};
  DivideByCount(DataType::kInt32, reinterpret_cast<std::byte*>(values.data()), values.size(), 4);
  EXPECT_EQ(values, (std::vector<int32_t>{1, -2, 2, -2, 0, -1, 536870911, -536870912}));
}

TEST(TransformTest, ScalingIntegersTruncatesAndSaturates) {
  std::vector<int8_t> values = {3, -3, 100, -100, 127, -128};
  Scale(DataType::kInt8, reinterpret_cast<std::byte*>(values.data()), values.size(), 1.5);
  EXPECT_EQ(values, (std::vector<int8_t>{4, -4, 127, -128, 127, -128}));
}

TEST(TransformTest, DivisionLeavesBoolsAlone) {
  std::vector<uint8_t> values = {0, 1, 7};
  DivideByCount(DataType::kBool, reinterpret_cast<std::byte*>(values.data()), values.size(), 2);
  EXPECT_EQ(values, (std::vector<uint8_t>{0, 1, 7}));
}

}  // namespace
}  // namespace byteps::kernels
