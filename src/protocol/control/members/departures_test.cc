#include "src/protocol/control/members/departures.h"

#include <gtest/gtest.h>

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

TEST(DeparturesTest, WhoIsLostOrLeavesOrHasLeftIsNotLeftOver) {
  wire::View view = JobView(3, 5, 1);
  Departures departures;
  EXPECT_TRUE(departures.NobodyGoes());
  EXPECT_EQ(departures.RanksLeftOver(view, {}), 5u);
  departures.Lose(1, "closed");
  departures.Leave(2);
  view.workers[2].left = true;
  EXPECT_EQ(departures.RanksLeftOver(view, {}), 2u);
  EXPECT_EQ(departures.RanksLeftOver(view, {4}), 1u);
  EXPECT_EQ(departures.RanksLeftOver(view, {1}), 2u) << "it is not counted anyway";
  EXPECT_TRUE(departures.IsGoing(view, 1));
  EXPECT_TRUE(departures.IsGoing(view, 2));
  EXPECT_FALSE(departures.IsGoing(view, 4));
}

TEST(DeparturesTest, ACarrierThatLeavesIsNeededUntilTheOthersLeave) {
  wire::View view = JobView(1, 3, 1);
  for (wire::WorkerInfo& one : view.workers) one.slot = 0;
  Departures departures;
  departures.Leave(1);
  EXPECT_FALSE(departures.IsGoing(view, 1));
  EXPECT_EQ(departures.RanksLeftOver(view, {}), 2u) << "its own rank has left all the same";
  departures.Leave(2);
  EXPECT_TRUE(departures.IsGoing(view, 2));
  EXPECT_FALSE(departures.IsGoing(view, 1));
  view.workers[2].left = true;
  EXPECT_TRUE(departures.IsGoing(view, 1));
}

TEST(DeparturesTest, ProvenDeadIsNotYetLost) {
  Departures departures;
  departures.ProveDead(7);
  EXPECT_FALSE(departures.IsGoing(JobView(1, 7, 1), 7));
  EXPECT_EQ(departures.dead(), Incarnations{7});
  departures.Lose(8, "closed");
  departures.ForgetIf([](uint64_t who) { return who == 7; });
  EXPECT_TRUE(departures.dead().empty());
  EXPECT_TRUE(departures.IsLost(8));
}

}  // namespace
}  // namespace byteps::protocol
