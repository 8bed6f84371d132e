#include "src/protocol/control/views/sync_points.h"

#include <gtest/gtest.h>

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

TEST(SyncPointsTest, AllWaitWhenEveryWorkerDoesThatStays) {
  wire::View view = JobView(1, 3, 1);
  Departures departures;
  SyncPoints syncs;
  EXPECT_FALSE(syncs.AllWait(view, departures));
  EXPECT_TRUE(syncs.Reach(1, {1, 1}).empty());
  EXPECT_FALSE(syncs.AllWait(view, departures));
  departures.Leave(2);
  view.workers[2].left = true;
  EXPECT_TRUE(syncs.AllWait(view, departures));
  SyncPoints::Answers answers = syncs.GoOn(1);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].first, 1u);
  EXPECT_EQ(answers[0].second, (wire::GoOn{1, 1}));
  EXPECT_FALSE(syncs.AllWait(view, departures));
}

TEST(SyncPointsTest, WhatOneHasPassedEveryOneMayPass) {
  SyncPoints syncs;
  syncs.Reach(1, {1, 1});
  SyncPoints::Answers answers = syncs.Reach(2, {1, 2});
  ASSERT_EQ(answers.size(), 1u) << "worker 2 was let go on from the first point";
  EXPECT_EQ(answers[0].first, 1u);
  EXPECT_EQ(syncs.Reach(1, {1, 1}).size(), 1u) << "it missed the answer";
  EXPECT_EQ(syncs.Pass(1, 2, 1).size(), 1u) << "a report says that the second one is passed, too";
}

TEST(SyncPointsTest, WhatIsSaidOfAnotherGenerationAnswersNobody) {
  SyncPoints syncs;
  syncs.Reach(1, {2, 1});
  EXPECT_TRUE(syncs.Pass(1, 5, 2).empty());
  syncs.Forget(1);
  EXPECT_FALSE(syncs.AllWait(JobView(1, 1, 1), {}));
}

}  // namespace
}  // namespace byteps::protocol
