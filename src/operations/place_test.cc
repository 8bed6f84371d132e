#include "src/operations/place.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace byteps::operations {
namespace {

Place PlaceOf(const std::vector<uint32_t>& ranks, const std::vector<uint32_t>& turns) {
  return {ranks, 0, turns};
}

TEST(PlaceTest, ContributorsWhoseRanksFollowOneAnotherAreOneRun) {
  const std::vector<uint32_t> ranks = {0, 1, 2, 5};
  const std::vector<uint32_t> turns = TurnsByContributor(std::vector<Slot>{7, 7, 2, 2});
  EXPECT_TRUE(turns.empty());
  const Place place = PlaceOf(ranks, turns);
  EXPECT_EQ(place.RunCount(), 1u);
  EXPECT_EQ(place.Run(0), (PlaceRun{0, 4}));
  EXPECT_EQ(place.RunOf(3), 0u);
  EXPECT_EQ(place.TurnOf(3), 3u);
}

TEST(PlaceTest, RanksThatAreDealtInTurnAreRunsOfOne) {
  const std::vector<uint32_t> ranks = {0, 1, 2, 3};
  const std::vector<uint32_t> turns = TurnsByContributor(std::vector<Slot>{0, 1, 0, 1});
  EXPECT_EQ(turns, (std::vector<uint32_t>{0, 2, 1, 3}));
  const Place place = PlaceOf(ranks, turns);
  ASSERT_EQ(place.RunCount(), 4u);
  EXPECT_EQ(place.Run(2), (PlaceRun{2, 3}));
}

TEST(PlaceTest, NobodyIsInNoRun) { EXPECT_EQ(Place().RunCount(), 0u); }

// Each place is in one run, and in each run the turns count up.
RC_GTEST_PROP(PlaceTest, RunsCoverAllPlaces, (std::vector<uint8_t> contributors)) {
  std::vector<Slot> slots;
  for (uint8_t one : contributors) slots.push_back(one % 4);
  const std::vector<uint32_t> turns = TurnsByContributor(slots);
  const std::vector<uint32_t> ranks(slots.size());
  const Place place = PlaceOf(ranks, turns);
  uint32_t next = 0;
  for (uint32_t number = 0; number < place.RunCount(); ++number) {
    const PlaceRun run = place.Run(number);
    RC_ASSERT(run.begin == next && run.end > run.begin);
    for (; next < run.end; ++next) {
      RC_ASSERT(place.RunOf(next) == number);
      RC_ASSERT(place.TurnOf(next) - place.TurnOf(run.begin) == next - run.begin);
    }
  }
  RC_ASSERT(next == place.count());
}

// The ranks of a contributor have turns without gaps, in the order of their places.
RC_GTEST_PROP(PlaceTest, TurnsGoContributorByContributor, (std::vector<uint8_t> contributors)) {
  std::vector<Slot> slots;
  for (uint8_t one : contributors) slots.push_back(one % 4);
  const std::vector<uint32_t> turns = TurnsByContributor(slots);
  if (turns.empty()) return;
  std::vector<uint32_t> place_of(turns.size());
  for (uint32_t place = 0; place < turns.size(); ++place) place_of[turns[place]] = place;
  for (size_t turn = 1; turn < turns.size(); ++turn) {
    const auto place = place_of.begin() + static_cast<ptrdiff_t>(turn);
    const bool goes_on = slots[*place] == slots[*(place - 1)];
    if (goes_on) RC_ASSERT(*(place - 1) < *place);
    auto is_same = [&](uint32_t other) { return slots[other] == slots[*place]; };
    if (!goes_on) RC_ASSERT(std::none_of(place_of.begin(), place, is_same));
  }
}

}  // namespace
}  // namespace byteps::operations
