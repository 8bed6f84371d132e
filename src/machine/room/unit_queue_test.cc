#include "src/machine/room/unit_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace byteps::machine {
namespace {

using Kind = device::Launch::Kind;
using Said = UnitQueue::Said;

constexpr RoundKey kUnitRound = {5, 1, 0};
constexpr RoundKey kOtherRound = {6, 1, 0};

// Two groups of two ranks. Of the second group only rank 3 is a home.
std::vector<plan::DeviceGroup> TwoGroups() { return {{{0, 1}, {0.5, 0.5}}, {{2, 3}, {0, 1}}}; }

class UnitQueueTest : public testing::Test {
 protected:
  // Seven pieces of 64 bytes and one of 16: units of two pieces.
  static GroupRound Eight(int32_t priority = 0) {
    return {priority, 0, DataType::kFloat32, Combine::kMax, {{7, 64}, {1, 16}}};
  }
  UnitQueue queue{TwoGroups(), {.unit_bytes = 128, .launched_max = 256}};
};

TEST_F(UnitQueueTest, EachHomeGetsARunOfPieces) {
  queue.Open(kUnitRound, Eight());
  const std::vector<Said> said = queue.Take();
  ASSERT_EQ(said.size(), 2u) << "as many bytes as may be under way";
  ASSERT_EQ(said[1].size(), 2u) << "a launch for each group";
  const UnitLaunch& first = said[1][0];
  EXPECT_EQ(first.kind, Kind::kReduce);
  EXPECT_EQ(first.first_piece, 2u);
  EXPECT_EQ(first.pieces, 2u);
  EXPECT_EQ(first.how, Combine::kMax);
  EXPECT_EQ(first.runs, (std::vector<device::GroupRun>{{0, 0, 64}, {1, 64, 64}}));
  EXPECT_EQ(said[1][1].runs, (std::vector<device::GroupRun>{{1, 0, 128}}));
  EXPECT_EQ(queue.HomesOf(kUnitRound, 2), 0b1001u);
  EXPECT_EQ(queue.HomesOf(kUnitRound, 3), 0b1010u);
}

TEST_F(UnitQueueTest, ATailIsNotSpecial) {
  queue.Open(kUnitRound, Eight());
  std::vector<Said> all;
  for (int i = 0; i < 4; ++i) {
    for (const Said& said : queue.Take()) all.push_back(said);
    queue.OnLaunchEnd();
  }
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[3][0].runs, (std::vector<device::GroupRun>{{0, 0, 64}, {1, 64, 16}}));
  EXPECT_EQ(all[3][0].bytes(), 80u);
}

TEST_F(UnitQueueTest, OnlySoMuchIsUnderWayAndTheUrgentRoundIsNext) {
  queue.Open(kUnitRound, Eight());
  EXPECT_EQ(queue.Take().size(), 2u);
  EXPECT_TRUE(queue.Take().empty());
  queue.Open(kOtherRound, Eight(1));
  EXPECT_TRUE(queue.Take().empty());
  EXPECT_FALSE(queue.IsReduced(kUnitRound, 1));
  queue.OnLaunchEnd();
  EXPECT_TRUE(queue.IsReduced(kUnitRound, 1));
  EXPECT_FALSE(queue.IsReduced(kUnitRound, 2));
  const std::vector<Said> next = queue.Take();
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0][0].key, kOtherRound);
}

TEST_F(UnitQueueTest, AUnitIsGatheredWhenAllItsAnswersAreThere) {
  queue.Open(kUnitRound, Eight());
  queue.Take();
  queue.OnSpread(kUnitRound, 3);
  EXPECT_TRUE(queue.Take().empty());
  queue.OnSpread(kUnitRound, 2);
  const std::vector<Said> said = queue.Take();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0][0].kind, Kind::kGather);
  EXPECT_EQ(said[0][0].first_piece, 2u);
  EXPECT_EQ(said[0][1].runs, (std::vector<device::GroupRun>{{1, 0, 128}}));
}

// A piece that moves to another lane may be spread there once more.
TEST_F(UnitQueueTest, AnAnswerThatIsSpreadTwiceCountsOnce) {
  queue.Open(kUnitRound, Eight());
  queue.Take();
  queue.OnSpread(kUnitRound, 3);
  queue.OnSpread(kUnitRound, 3);
  EXPECT_TRUE(queue.Take().empty()) << "the home of piece 2 has only a part of the sum";
  queue.OnSpread(kUnitRound, 2);
  EXPECT_EQ(queue.Take().size(), 1u);
  queue.OnSpread(kUnitRound, 2);
  EXPECT_TRUE(queue.Take().empty());
}

// The launches of a closed round that were said still count as under way.
TEST_F(UnitQueueTest, AClosedRoundHasNoMoreLaunches) {
  queue.Open(kUnitRound, Eight());
  EXPECT_EQ(queue.Take().size(), 2u);
  queue.OnSpread(kUnitRound, 0);
  queue.OnSpread(kUnitRound, 1);
  queue.Close(kUnitRound);
  EXPECT_FALSE(queue.Has(kUnitRound));
  queue.Open(kOtherRound, Eight());
  EXPECT_TRUE(queue.Take().empty());
  queue.OnLaunchEnd();
  queue.OnLaunchEnd();
  EXPECT_EQ(queue.Take().size(), 2u);
  EXPECT_FALSE(queue.IsReduced(kOtherRound, 0));
}

TEST_F(UnitQueueTest, AGroupWithoutHomesSumsAUnitForAllRanks) {
  UnitQueue at_once{{{{0, 1}, {}}}, {.unit_bytes = 128, .launched_max = 256}};
  EXPECT_TRUE(at_once.SumsAtOnce());
  EXPECT_FALSE(queue.SumsAtOnce());
  at_once.Open(kUnitRound, Eight());
  const auto said = at_once.TakeLaunches();
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[1].first, 0b11u);
  EXPECT_EQ(said[1].second.kind, Kind::kReduceAll);
  EXPECT_EQ(said[1].second.first_piece, 2u);
  EXPECT_EQ(said[1].second.runs, (std::vector<device::GroupRun>{{0, 0, 128}}));
  for (int i = 0; i < 3; ++i) at_once.OnLaunchEnd();
  EXPECT_EQ(at_once.Take().size(), 2u);
  at_once.OnLaunchEnd();
  EXPECT_FALSE(at_once.IsWhole(kUnitRound)) << "there are four units";
  at_once.OnLaunchEnd();
  EXPECT_TRUE(at_once.IsWhole(kUnitRound));
}

TEST_F(UnitQueueTest, ARoundOfHomesIsWholeWhenAllUnitsAreGathered) {
  queue.Open(kOtherRound, {0, 0, DataType::kFloat32, Combine::kSum, {{2, 64}}});
  EXPECT_EQ(queue.Take().size(), 1u);
  queue.OnLaunchEnd();
  for (uint32_t piece : {0U, 1U}) queue.OnSpread(kOtherRound, piece);
  EXPECT_EQ(queue.Take().size(), 1u);
  EXPECT_FALSE(queue.IsWhole(kOtherRound));
  queue.OnLaunchEnd();
  EXPECT_TRUE(queue.IsWhole(kOtherRound));
}

TEST_F(UnitQueueTest, NoLaunchFollowsTheEnd) {
  queue.Open(kUnitRound, Eight());
  queue.Stop();
  EXPECT_TRUE(queue.TakeLaunches().empty());
}

TEST_F(UnitQueueTest, AUnitThatIsLargerThanTheLimitGoesAlone) {
  UnitQueue small{TwoGroups(), {.unit_bytes = 512, .launched_max = 256}};
  small.Open(kUnitRound, Eight());
  EXPECT_EQ(small.Take().size(), 1u);
}

}  // namespace
}  // namespace byteps::machine
