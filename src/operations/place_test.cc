#include "src/operations/place.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace byteps::operations {
namespace {

Place PlaceOf(const std::vector<uint32_t>& ranks, const std::vector<uint32_t>& rows) {
  return {ranks, 0, rows};
}

TEST(PlaceTest, ContributorsWhoseRanksFollowOneAnotherAreOneRun) {
  const std::vector<uint32_t> ranks = {0, 1, 2, 5};
  const std::vector<uint32_t> rows = RowsByContributor(std::vector<Slot>{7, 7, 2, 2});
  EXPECT_TRUE(rows.empty());
  const Place place = PlaceOf(ranks, rows);
  EXPECT_EQ(place.RunCount(), 1u);
  EXPECT_EQ(place.Run(0), (PlaceRun{0, 4}));
  EXPECT_EQ(place.RunOf(3), 0u);
  EXPECT_EQ(place.RowOf(3), 3u);
}

TEST(PlaceTest, RanksThatAreDealtInTurnAreRunsOfOne) {
  const std::vector<uint32_t> ranks = {0, 1, 2, 3};
  const std::vector<uint32_t> rows = RowsByContributor(std::vector<Slot>{0, 1, 0, 1});
  EXPECT_EQ(rows, (std::vector<uint32_t>{0, 2, 1, 3}));
  const Place place = PlaceOf(ranks, rows);
  ASSERT_EQ(place.RunCount(), 4u);
  EXPECT_EQ(place.Run(2), (PlaceRun{2, 3}));
}

TEST(PlaceTest, NobodyIsInNoRun) { EXPECT_EQ(Place().RunCount(), 0u); }

// Each place is in one run, and in each run the rows count up.
RC_GTEST_PROP(PlaceTest, RunsCoverAllPlaces, (std::vector<uint8_t> contributors)) {
  std::vector<Slot> slots;
  for (uint8_t one : contributors) slots.push_back(one % 4);
  const std::vector<uint32_t> rows = RowsByContributor(slots);
  const std::vector<uint32_t> ranks(slots.size());
  const Place place = PlaceOf(ranks, rows);
  uint32_t next = 0;
  for (uint32_t number = 0; number < place.RunCount(); ++number) {
    const PlaceRun run = place.Run(number);
    RC_ASSERT(run.begin == next && run.end > run.begin);
    for (; next < run.end; ++next) {
      RC_ASSERT(place.RunOf(next) == number);
      RC_ASSERT(place.RowOf(next) - place.RowOf(run.begin) == next - run.begin);
    }
  }
  RC_ASSERT(next == place.count());
}

// The ranks of a contributor have rows behind one another, in the order of their places.
RC_GTEST_PROP(PlaceTest, RowsGoContributorByContributor, (std::vector<uint8_t> contributors)) {
  std::vector<Slot> slots;
  for (uint8_t one : contributors) slots.push_back(one % 4);
  const std::vector<uint32_t> rows = RowsByContributor(slots);
  if (rows.empty()) return;
  std::vector<uint32_t> place_of(rows.size());
  for (uint32_t place = 0; place < rows.size(); ++place) place_of[rows[place]] = place;
  for (size_t row = 1; row < rows.size(); ++row) {
    const auto place = place_of.begin() + static_cast<ptrdiff_t>(row);
    const bool goes_on = slots[*place] == slots[*(place - 1)];
    if (goes_on) RC_ASSERT(*(place - 1) < *place);
    auto is_same = [&](uint32_t other) { return slots[other] == slots[*place]; };
    if (!goes_on) RC_ASSERT(std::none_of(place_of.begin(), place, is_same));
  }
}

}  // namespace
}  // namespace byteps::operations
