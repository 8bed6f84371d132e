#include "src/plan/move_trial.h"

#include <gtest/gtest.h>

namespace byteps::plan {
namespace {

const std::vector<double> kBefore = {0.5, 0.5};

TEST(MoveTrialTest, AMoveThatPaysStays) {
  MoveTrial trial;
  EXPECT_TRUE(trial.MayMove());
  trial.Begin(kBefore, {100}, 1.2);
  EXPECT_FALSE(trial.MayMove());
  EXPECT_FALSE(trial.Observe({90}).has_value());  // other work on the processors
  EXPECT_FALSE(trial.Observe({105}).has_value());
  EXPECT_TRUE(trial.MayMove());
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(trial.Observe({90}).has_value());
}

TEST(MoveTrialTest, AMoveThatDoesNotPayIsUndoneAfterThreePeriods) {
  MoveTrial trial;
  trial.Begin(kBefore, {100}, 1.2);
  EXPECT_FALSE(trial.Observe({102}).has_value());
  EXPECT_FALSE(trial.Observe({102}).has_value());
  EXPECT_EQ(trial.Observe({102}), kBefore);
  EXPECT_FALSE(trial.MayMove());
}

TEST(MoveTrialTest, AMoveThatPromisedLittleAndHarmsEndsAtOnce) {
  for (double gain : {1.05, 1.4, 1.41}) {
    MoveTrial trial;
    trial.Begin(kBefore, {100}, gain);
    EXPECT_FALSE(trial.Observe({91}).has_value());
    EXPECT_EQ(trial.Observe({89}).has_value(), gain <= kMuch) << gain;
  }
}

TEST(MoveTrialTest, WhatPromisesLittleIsJudgedByWholeBursts) {
  for (double bursts : {101.0, 102.0}) {
    MoveTrial trial;
    trial.Begin(kBefore, {100, 100}, 1.06);
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(trial.Observe({120, 0}).has_value());
    EXPECT_FALSE(trial.MayMove()) << "no burst has ended";
    EXPECT_FALSE(trial.Observe({91, bursts}).has_value());
    EXPECT_EQ(trial.MayMove(), bursts > 101.5);
  }
}

TEST(MoveTrialTest, WhatHarmsNeedsNoWholeBurst) {
  for (Pace pace : {Pace{89, 0}, Pace{120, 89}}) {
    MoveTrial trial;
    trial.Begin(kBefore, {100, 100}, 1.06);
    EXPECT_TRUE(trial.Observe(pace).has_value());
  }
}

TEST(MoveTrialTest, WithoutBurstsThePaceBetweenTheirEndsMustDo) {
  MoveTrial trial;
  trial.Begin(kBefore, {100, 100}, 1.06);
  for (int i = 0; i < 12; ++i) EXPECT_FALSE(trial.Observe({100, 0}).has_value());
  EXPECT_FALSE(trial.MayMove());
  trial.Observe({102, 0});
  EXPECT_TRUE(trial.MayMove());
  trial.Begin(kBefore, {100, 0}, 1.06);
  trial.Observe({102, 50});
  EXPECT_TRUE(trial.MayMove()) << "nothing was known of bursts before";
}

TEST(MoveTrialTest, WhatPromisesMuchIsSeenInEither) {
  for (Pace pace : {Pace{130, 0}, Pace{100, 130}}) {
    MoveTrial trial;
    trial.Begin(kBefore, {100, 100}, 2);
    EXPECT_FALSE(trial.Observe({120, 120}).has_value());
    EXPECT_FALSE(trial.MayMove());
    trial.Observe(pace);
    EXPECT_TRUE(trial.MayMove());
  }
}

// A move must bring a quarter of the gain that it promised.
TEST(MoveTrialTest, HowMuchAMoveMustPay) {
  for (double pace : {104.9, 105.1}) {
    MoveTrial trial;
    trial.Begin(kBefore, {100}, 1.2);
    trial.Observe({pace});
    EXPECT_EQ(trial.MayMove(), pace > 105);
  }
}

// Returns the number of periods until the next move is allowed, if the job goes on with this pace.
int WaitOf(MoveTrial& trial, double pace) {
  int periods = 0;
  for (; !trial.MayMove() && periods < 10000; ++periods) {
    EXPECT_FALSE(trial.Observe({pace}).has_value());
  }
  return periods;
}

void MoveInVain(MoveTrial& trial) {
  trial.Begin(kBefore, {100}, 1.2);
  for (int i = 0; i < 3; ++i) trial.Observe({100});
}

TEST(MoveTrialTest, AfterEachMoveInVainTheWaitIsTwiceAsLong) {
  MoveTrial trial;
  for (int wait : {40, 80, 160, 320, 640, 1280, 2560, 2560}) {
    MoveInVain(trial);
    EXPECT_EQ(WaitOf(trial, 100), wait);
  }
  trial.Begin(kBefore, {100}, 1.2);
  trial.Observe({120});
  MoveInVain(trial);
  EXPECT_EQ(WaitOf(trial, 100), 40) << "one has paid since";
}

TEST(MoveTrialTest, AfterAGuessInVainWhatIsKnownMayMove) {
  MoveTrial trial;
  trial.Begin(kBefore, {100}, 1.2, false);
  EXPECT_EQ(trial.Observe({50}), kBefore);
  EXPECT_TRUE(trial.MayMove());
  EXPECT_TRUE(trial.waits()) << "with the same guess";
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(trial.Observe({100}).has_value());
  EXPECT_FALSE(trial.waits());
}

TEST(MoveTrialTest, NobodyWaitsWhenItIsKnownWhatWasWrong) {
  MoveTrial trial;
  trial.Begin(kBefore, {100}, 1.2);
  EXPECT_EQ(trial.Observe({50}), kBefore);
  EXPECT_FALSE(trial.MayMove());
  trial.EndWait();
  EXPECT_TRUE(trial.MayMove());
}

TEST(MoveTrialTest, OnlyThePeriodThatEndsATrialSaysThatItPaid) {
  MoveTrial trial;
  trial.Begin(kBefore, {100}, 1.2);
  EXPECT_FALSE(trial.Observe({101}).has_value());
  EXPECT_FALSE(trial.has_paid());
  EXPECT_FALSE(trial.Observe({120}).has_value());
  EXPECT_TRUE(trial.has_paid());
  EXPECT_FALSE(trial.Observe({120}).has_value());
  EXPECT_FALSE(trial.has_paid());
}

TEST(MoveTrialTest, AJobThatHasBecomeSlowerMayMoveAtOnce) {
  MoveTrial trial;
  MoveInVain(trial);
  EXPECT_EQ(WaitOf(trial, 89), 3);
  MoveInVain(trial);
  EXPECT_EQ(WaitOf(trial, 89), 3) << "the slow periods before do not count";
  MoveInVain(trial);
  EXPECT_EQ(WaitOf(trial, 90), 160) << "a tenth is no change";
}

TEST(MoveTrialTest, OneSlowPeriodIsNoChange) {
  MoveTrial trial;
  MoveInVain(trial);
  for (int i = 0; i < 12; ++i) {
    trial.Observe({i % 3 == 2 ? 100.0 : 50.0});
    EXPECT_FALSE(trial.MayMove());
  }
}

}  // namespace
}  // namespace byteps::plan
