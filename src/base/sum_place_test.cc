#include "src/base/sum_place.h"

#include <gtest/gtest.h>

namespace byteps {
namespace {

TEST(SumPlaceTest, InGroupsOfOneThePlaceIsTheRank) {
  for (uint32_t rank : {0U, 1U, 2U, 7U, 65535U, UINT32_MAX}) EXPECT_EQ(PlaceOf(rank, 1), rank);
}

TEST(SumPlaceTest, AGroupThatIsAPowerOfTwoChangesNothing) {
  for (uint32_t group = 1; group <= 64; group *= 2) {
    for (uint32_t rank = 0; rank < 300; ++rank) ASSERT_EQ(PlaceOf(rank, group), rank);
  }
}

TEST(SumPlaceTest, EachGroupBeginsABlock) {
  EXPECT_EQ(PlaceOf(2, 3), 2U);
  EXPECT_EQ(PlaceOf(3, 3), 4U);
  EXPECT_EQ(PlaceOf(8, 3), 10U);
  EXPECT_EQ(PlaceOf(5, 6), 5U);
  EXPECT_EQ(PlaceOf(6, 6), 8U);
  EXPECT_EQ(PlaceOf(12, 12), 16U);
}

TEST(SumPlaceTest, PlacesAscendWithRanksBelowTwiceTheRanks) {
  for (uint32_t group = 1; group <= 70; ++group) {
    for (uint32_t rank = 1; rank < 500; ++rank) {
      ASSERT_GT(PlaceOf(rank, group), PlaceOf(rank - 1, group)) << rank << " in " << group;
      ASSERT_LT(PlaceOf(rank, group), 2 * (rank / group + 1) * group) << rank << " in " << group;
    }
  }
}

TEST(SumPlaceTest, LevelsAreHeightsOfTheLowestNodeAboveBoth) {
  EXPECT_EQ(LevelOf(5, 5), 0U);
  EXPECT_EQ(LevelOf(4, 5), 1U);
  EXPECT_EQ(LevelOf(5, 6), 2U);
  EXPECT_EQ(LevelOf(0, 3), 2U);
  EXPECT_EQ(LevelOf(3, 4), 3U);
  EXPECT_EQ(LevelOf(0, UINT32_MAX), 32U);
  for (uint32_t a = 0; a < 64; ++a) {
    for (uint32_t b = 0; b < 64; ++b) {
      const uint32_t level = LevelOf(a, b);
      ASSERT_EQ(a >> level, b >> level);
      if (level == 0) continue;
      ASSERT_NE(a >> (level - 1), b >> (level - 1));
    }
  }
}

}  // namespace
}  // namespace byteps
