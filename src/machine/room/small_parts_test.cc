#include "src/machine/room/small_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

namespace byteps::machine {
namespace {

constexpr uint32_t kSmallRanks = 5;

class SmallPartsTest : public testing::Test {
 protected:
  void Put(uint32_t rank, uint32_t place, std::vector<float> values, uint32_t offset = 0) {
    auto bytes = std::as_bytes(std::span(values));
    std::copy(bytes.begin(), bytes.end(), small.At(rank, place) + offset);
    parts.resize(kSmallRanks);
    parts[rank] = {place, offset, static_cast<uint32_t>(values.size() * sizeof(float))};
  }
  std::vector<float> At(uint32_t rank, uint32_t place, size_t count) const {
    std::vector<float> values(count);
    std::memcpy(values.data(), small.At(rank, place), count * sizeof(float));
    return values;
  }
  static local::BlockUse Use(local::RankSet ranks, size_t floats, Combine how = Combine::kSum) {
    local::BlockUse use;
    use.ranks = use.bring = ranks;
    use.bytes = floats * sizeof(float);
    use.how = how;
    if (how == Combine::kOverlay) use.type = DataType::kUint8;
    return use;
  }

  // Combines with the local ranks as places.
  bool Combined(const local::BlockUse& use, const std::vector<SmallPart>& from) const {
    std::vector<uint32_t> places;
    for (uint32_t rank = 0; rank < local::kLocalRanksMax; ++rank) {
      if (local::Has(use.bring, rank)) places.push_back(rank);
    }
    return small.Combine(use, from, kernels::SumTree(places));
  }

  std::vector<std::byte> memory = std::vector<std::byte>(SmallMemory::BytesFor(kSmallRanks));
  SmallMemory small{memory, kSmallRanks};
  std::vector<SmallPart> parts;
};

TEST_F(SmallPartsTest, EachRankGetsTheSumInItsPlace) {
  Put(0, 3, {1, 2});
  Put(2, 15, {10, 20});
  EXPECT_TRUE(Combined(Use(0b101, 2), parts));
  EXPECT_EQ(At(0, 3, 2), (std::vector<float>{11, 22}));
  EXPECT_EQ(At(2, 15, 2), (std::vector<float>{11, 22}));
}

TEST_F(SmallPartsTest, TheSumIsThatOfTheTree) {
  const float values[] = {1e8F, -1e8F, 1, 1e8F, -1e8F};
  for (uint32_t rank = 0; rank < 5; ++rank) Put(rank, 0, {values[rank]});
  EXPECT_TRUE(Combined(Use(0b11111, 1), parts));
  EXPECT_EQ(At(0, 0, 1), (std::vector<float>{0})) << "from left to right it is 1";
}

TEST_F(SmallPartsTest, AnAverageHasTheDivisorOfTheUse) {
  Put(0, 0, {3});
  Put(1, 0, {6});
  local::BlockUse use = Use(0b11, 1, Combine::kAverage);
  use.divisor = 3;
  EXPECT_TRUE(Combined(use, parts));
  EXPECT_EQ(At(1, 0, 1), (std::vector<float>{3}));
}

// Rank 1 brings no bytes, like a rank that is not the root of a broadcast.
TEST_F(SmallPartsTest, AnOverlayHasEachPartWhereItBelongs) {
  Put(0, 0, {1}, 0);
  Put(1, 1, {});
  Put(2, 2, {3, 4}, sizeof(float));
  EXPECT_TRUE(Combined(Use(0b111, 3, Combine::kOverlay), parts));
  for (uint32_t rank : {0, 1, 2}) EXPECT_EQ(At(rank, rank, 3), (std::vector<float>{1, 3, 4}));
}

TEST_F(SmallPartsTest, WithoutAPartOfEachRankNothingIsDone) {
  Put(0, 0, {1});
  EXPECT_FALSE(Combined(Use(0b11, 1), parts));
  parts.resize(1);
  EXPECT_FALSE(Combined(Use(0b11, 1), parts));
  EXPECT_EQ(At(0, 0, 1), (std::vector<float>{1}));
  EXPECT_FALSE(SmallMemory().Combine(Use(0b1, 1), parts, kernels::SumTree()));
}

TEST_F(SmallPartsTest, WhatCannotBeIsRefused) {
  Put(0, 0, {1});
  Put(1, 0, {1});
  parts[1] = {kSmallPlaces, 0, sizeof(float)};
  EXPECT_FALSE(Combined(Use(0b11, 1), parts)) << "no such place";
  parts[1] = {0, UINT32_MAX, sizeof(float)};
  EXPECT_FALSE(Combined(Use(0b11, 1, Combine::kOverlay), parts)) << "behind its end";
  parts[1] = {0, 0, 2};
  EXPECT_FALSE(Combined(Use(0b11, 1), parts)) << "not the whole";
  parts[1] = {0, 0, kSmallBytesMax + sizeof(float)};
  EXPECT_FALSE(Combined(Use(0b11, kSmallBytesMax / sizeof(float) + 1), parts)) << "too large";
}

TEST(SmallPlacesTest, AreGivenAndTakenBack) {
  SmallPlaces places(2);
  EXPECT_EQ(places.Take(), 0u);
  EXPECT_EQ(places.Take(), 1u);
  EXPECT_FALSE(places.Take().has_value());
  places.GiveBack(0);
  EXPECT_EQ(places.Take(), 0u);
  EXPECT_FALSE(SmallPlaces(0).Take().has_value());
}

}  // namespace
}  // namespace byteps::machine
