#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "src/kernels/kernels.h"
#include "src/kernels/kernels_for_test.h"

namespace byteps::kernels {
namespace {

void CheckConvert(DataType from, DataType to, const Bytes& in, size_t misalignment) {
  const size_t count = in.size() / SizeOf(from);
  const Bytes expected = from == to ? in : reference::Convert(from, to, in);
  ForEachTarget([&] {
    Placed source(in, misalignment);
    Placed target(Bytes(count * SizeOf(to)), misalignment + 3);
    Convert(from, to, source.data(), target.data(), count);
    ExpectSame(to, target.contents(), expected, std::string("conversion from ") + NameOf(from));
    EXPECT_TRUE(target.GuardsAreIntact());
    EXPECT_EQ(source.contents(), in);
  });
}

template <class T>
Bytes BytesOf(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(ConvertTest, EveryLengthUpToFourVectorsAndMore) {
  std::mt19937_64 random(1);
  for (DataType from : kFloatTypes) {
    for (DataType to : kFloatTypes) {
      for (size_t count = 0; count <= 131; ++count) {
        CheckConvert(from, to, RandomElements(from, count, random), count);
      }
      for (size_t count : {511, 512, 513, 5000}) {
        CheckConvert(from, to, RandomElements(from, count, random), 1);
      }
    }
  }
}

TEST(ConvertTest, EveryHalf) {
  std::vector<uint16_t> every(1 << 16);
  for (size_t i = 0; i < every.size(); ++i) every[i] = static_cast<uint16_t>(i);
  for (DataType from : {DataType::kFloat16, DataType::kBfloat16}) {
    for (DataType to : kFloatTypes) CheckConvert(from, to, BytesOf(every), 0);
  }
}

// Tests at and around every value of a half type and every middle between two, because rounding
// decides there.
template <class T>
std::vector<T> AroundTies(DataType half) {
  std::vector<T> values;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    reference::WithCodec(half, [&](auto codec) {
      using Codec = decltype(codec);
      if constexpr (std::is_same_v<typename Codec::Stored, uint16_t>) {
        const double value = Codec::Decode(static_cast<uint16_t>(bits));
        const double next = Codec::Decode(static_cast<uint16_t>(bits + 1));
        for (double point : {value, (value + next) / 2}) {
          const T exact = static_cast<T>(point);
          values.push_back(exact);
          values.push_back(std::nextafter(exact, std::numeric_limits<T>::infinity()));
          values.push_back(std::nextafter(exact, -std::numeric_limits<T>::infinity()));
        }
      }
    });
  }
  return values;
}

TEST(ConvertTest, RoundsToNearestEvenAtEveryTie) {
  for (DataType half : {DataType::kFloat16, DataType::kBfloat16}) {
    CheckConvert(DataType::kFloat32, half, BytesOf(AroundTies<float>(half)), 0);
    CheckConvert(DataType::kFloat64, half, BytesOf(AroundTies<double>(half)), 0);
  }
}

TEST(ConvertTest, RandomBits) {
  std::mt19937_64 random(5);
  std::vector<uint64_t> bits(1 << 17);
  for (uint64_t& word : bits) word = random();
  for (DataType to : kFloatTypes) {
    CheckConvert(DataType::kFloat32, to, BytesOf(bits), 2);
    CheckConvert(DataType::kFloat64, to, BytesOf(bits), 2);
  }
}

TEST(ConvertTest, TooLargeBecomesInfinityAndNanStaysNan) {
  const std::vector<float> values = {65519.0f, 65520.0f, -1e30f, std::nanf("")};
  std::vector<uint16_t> halves(values.size());
  Convert(DataType::kFloat32, DataType::kFloat16, reinterpret_cast<const std::byte*>(values.data()),
          reinterpret_cast<std::byte*>(halves.data()), values.size());
  EXPECT_EQ(halves, (std::vector<uint16_t>{0x7bff, 0x7c00, 0xfc00, 0x7e00}));
}

}  // namespace
}  // namespace byteps::kernels
