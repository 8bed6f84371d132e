#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "src/kernels/kernels.h"
#include "src/kernels/kernels_for_test.h"

namespace byteps::kernels {
namespace {

template <class T>
T SaturatedMultiply(T value, double factor) {
  const long double product = static_cast<double>(value) * factor;
  if (std::isnan(product)) return 0;
  const long double most = std::numeric_limits<T>::max();
  const long double least = std::numeric_limits<T>::min();
  return static_cast<T>(std::trunc(std::fmin(std::fmax(product, least), most)));
}

Bytes ReferenceScale(DataType type, const Bytes& data, double factor) {
  return reference::Transform(
      type, data, [&](auto value) { return value * static_cast<decltype(value)>(factor); },
      [&](auto value) { return SaturatedMultiply(value, factor); });
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
    if (type == DataType::kBool) continue;
    const size_t lanes = kVectorBytesMax / SizeOf(type);
    for (size_t count = 0; count <= 4 * lanes + 3; ++count) {
      CheckScale(type, RandomElements(type, count, random), -1.7, count);
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

TEST(TransformTest, EveryHalfScaled) {
  constexpr size_t kAll = 1 << 16;
  Bytes every(kAll * 2);
  for (size_t i = 0; i < kAll; ++i) WriteAt<uint16_t>(every.data(), i, static_cast<uint16_t>(i));
  for (DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    for (double factor : {0.5, 3.0, 1.0 / 1024, 1024.0}) CheckScale(type, every, factor, 0);
  }
}

TEST(TransformTest, ScalingIntegersTruncatesAndSaturates) {
  std::vector<int8_t> values = {3, -3, 100, -100, 127, -128};
  Scale(DataType::kInt8, reinterpret_cast<std::byte*>(values.data()), values.size(), 1.5);
  EXPECT_EQ(values, (std::vector<int8_t>{4, -4, 127, -128, 127, -128}));
}

}  // namespace
}  // namespace byteps::kernels
