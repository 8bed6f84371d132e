#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "src/kernels/kernels.h"
#include "src/kernels/kernels_for_test.h"

namespace byteps::kernels {
namespace {

// Checks Average out of place, and in place of the last input.
void CheckAverage(DataType type, const std::vector<Bytes>& inputs, uint32_t divisor,
                  size_t misalignment, const reference::Tree& of) {
  const size_t count = inputs[0].size() / SizeOf(type);
  const SumTree tree(of.places, of.nodes);
  const Bytes expected = reference::Average(type, inputs, of, count, divisor);
  ForEachTarget([&] {
    std::vector<Placed> placed;
    std::vector<const std::byte*> pointers;
    for (const Bytes& input : inputs) placed.emplace_back(input, misalignment + 3 * placed.size());
    for (Placed& input : placed) pointers.push_back(input.data());
    Placed separate(Bytes(expected.size()), misalignment);
    for (Placed* out : {&separate, &placed.back()}) {
      Average(type, out->data(), pointers, tree, count, divisor);
      ExpectSame(type, out->contents(), expected, "divided by " + std::to_string(divisor));
      EXPECT_TRUE(out->GuardsAreIntact());
    }
  });
}

void CheckAverage(DataType type, const std::vector<Bytes>& inputs, uint32_t divisor,
                  size_t misalignment) {
  CheckAverage(type, inputs, divisor, misalignment, {RowOf(inputs.size())});
}

std::vector<Bytes> RandomInputs(DataType type, size_t count, size_t ways, std::mt19937_64& random) {
  std::vector<Bytes> inputs;
  for (size_t way = 0; way < ways; ++way) inputs.push_back(RandomElements(type, count, random));
  return inputs;
}

TEST(AverageTest, EveryLengthUpToFourVectorsAndMore) {
  std::mt19937_64 random(1);
  for (DataType type : kAllTypes) {
    const size_t lanes = kVectorBytesMax / SizeOf(type);
    for (size_t count = 0; count <= 4 * lanes + 3; ++count) {
      CheckAverage(type, RandomInputs(type, count, 3, random), 3, count);
    }
  }
}

TEST(AverageTest, AnyDivisorAndAnyNumberOfInputs) {
  std::mt19937_64 random(2);
  for (DataType type : kAllTypes) {
    for (uint32_t divisor : {1u, 2u, 3u, 7u, 8u, 255u, 1000u, 65537u, 1u << 24, UINT32_MAX}) {
      CheckAverage(type, RandomInputs(type, 5003, 1, random), divisor, divisor);
    }
    for (uint32_t ways : {2u, 5u, 17u, 300u}) {
      CheckAverage(type, RandomInputs(type, 301, ways, random), ways, 1);
      CheckAverage(type, RandomInputs(type, 301, ways, random), ways + 2, 5);
    }
  }
}

TEST(AverageTest, AnyRowAndAnyPlaces) {
  std::mt19937_64 random(3);
  for (DataType type : kAllTypes) {
    for (uint32_t ways = 1; ways <= 17; ++ways) {
      CheckAverage(type, RandomInputs(type, 203, ways, random), ways, ways);
      Places places;
      while (places.size() < ways) {
        const uint32_t last = places.empty() ? 0 : places.back();
        places.push_back(last + 1 + static_cast<uint32_t>(random() % 5));
      }
      CheckAverage(type, RandomInputs(type, 203, ways, random), ways + 1, 7, {places});
      if (SizeOf(type) != 2) continue;
      CheckAverage(type, RandomInputs(type, 203, ways, random), ways + 1, 7, {places, Nodes::kOwn});
    }
  }
}

TEST(AverageTest, EveryHalf) {
  constexpr size_t kAll = 1 << 16;
  Bytes every(kAll * 2);
  for (size_t i = 0; i < kAll; ++i) WriteAt<uint16_t>(every.data(), i, static_cast<uint16_t>(i));
  for (DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    for (uint32_t divisor : {1u, 2u, 3u, 5u, 6u, 64u, 1000u}) {
      CheckAverage(type, {every}, divisor, 0);
    }
    CheckAverage(type, {every, every, every}, 3, 0);
  }
}

// ---- The promises of the header, in readable numbers.

template <class T>
std::vector<T> AverageOf(DataType type, std::vector<std::vector<T>> inputs, uint32_t divisor) {
  std::vector<const std::byte*> pointers;
  for (const auto& input : inputs) {
    pointers.push_back(reinterpret_cast<const std::byte*>(input.data()));
  }
  auto* out = reinterpret_cast<std::byte*>(inputs[0].data());
  Average(type, out, pointers, SumTree(RowOf(inputs.size())), inputs[0].size(), divisor);
  return inputs[0];
}

TEST(AverageTest, HalvesRoundOnceAtTheEnd) {
  // Three times 40000 is more than the largest float16.
  EXPECT_EQ(AverageOf<uint16_t>(DataType::kFloat16, {{0x78e2}, {0x78e2}, {0x78e2}}, 3),
            std::vector<uint16_t>{0x78e2});
  // (4.796875 + 6.33984375 + 5.8515625) / 3 is 5.6627..., but their sum is no float16.
  EXPECT_EQ(AverageOf<uint16_t>(DataType::kFloat16, {{0x44cc}, {0x4657}, {0x45da}}, 3),
            std::vector<uint16_t>{0x45aa});
}

// (2048 + 1) / 2 is 1024.5, and float16 has no 2049.
TEST(AverageTest, WithNodesOfTheirOwnTypeTheQuotientIsRoundedAgain) {
  const uint16_t values[] = {0x6800, 0x3c00};
  const std::byte* pointers[] = {reinterpret_cast<const std::byte*>(&values[0]),
                                 reinterpret_cast<const std::byte*>(&values[1])};
  uint16_t out = 0;
  auto* to = reinterpret_cast<std::byte*>(&out);
  Average(DataType::kFloat16, to, pointers, SumTree(RowOf(2)), 1, 2);
  EXPECT_EQ(out, 0x6400) << "1024, the even one of two at the same distance";
  Average(DataType::kFloat16, to, pointers, SumTree(RowOf(2), Nodes::kOwn), 1, 3);
  EXPECT_EQ(out, 0x6155) << "2048 / 3";
  Average(DataType::kFloat16, to, pointers, SumTree(RowOf(2)), 1, 3);
  EXPECT_EQ(out, 0x6156) << "2049 / 3";
}

TEST(AverageTest, IntegersAreTheExactQuotientRoundedDown) {
  EXPECT_EQ(AverageOf<int32_t>(DataType::kInt32, {{7, -7, 8, -8, 1, -1, INT32_MAX, INT32_MIN}}, 4),
            (std::vector<int32_t>{1, -2, 2, -2, 0, -1, 536870911, -536870912}));
  EXPECT_EQ(AverageOf<int8_t>(DataType::kInt8, {{100, -100}, {100, -100}, {101, -100}}, 3),
            (std::vector<int8_t>{100, -100}));
  EXPECT_EQ(AverageOf<uint8_t>(DataType::kUint8, {{200}, {255}}, 2), std::vector<uint8_t>{227});
  EXPECT_EQ(AverageOf<int64_t>(DataType::kInt64, {{INT64_MAX, INT64_MIN}, {INT64_MAX, -1}}, 2),
            (std::vector<int64_t>{INT64_MAX, INT64_MIN / 2 - 1}));
}

TEST(AverageTest, BoolsAreOr) {
  EXPECT_EQ(AverageOf<uint8_t>(DataType::kBool, {{0, 1, 7}, {0, 0, 0}}, 2),
            (std::vector<uint8_t>{0, 1, 1}));
}

}  // namespace
}  // namespace byteps::kernels
