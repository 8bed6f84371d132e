#include "src/plan/exchange_meter.h"

#include <gtest/gtest.h>

namespace byteps::plan {
namespace {

Time At(int ms) { return Time(milliseconds(ms)); }

TEST(ExchangeMeterTest, AShardIsBusyWhileAPieceIsUnderWay) {
  ExchangeMeter meter(milliseconds(100));
  meter.Begin(2);
  for (ShardId shard : {0U, 0U, 0U, 1U}) meter.OnPush(shard);
  meter.OnAnswered(0, 1000, true, At(10));  // it begins here
  meter.OnAnswered(1, 1000, true, At(40));
  EXPECT_FALSE(meter.Take().has_value());
  meter.OnAnswered(0, 3000, true, At(110));
  auto measurement = meter.Take();
  ASSERT_TRUE(measurement.has_value());
  EXPECT_EQ(measurement->active, milliseconds(100));
  EXPECT_EQ(measurement->shards[0].bytes, 3000u);
  EXPECT_EQ(measurement->shards[0].busy, milliseconds(100));
  EXPECT_EQ(measurement->shards[1].bytes, 1000u);
  EXPECT_EQ(measurement->shards[1].busy, milliseconds(30));
  meter.OnAnswered(0, 500, true, At(115));
  EXPECT_FALSE(meter.Take().has_value()) << "the next measurement has only begun";
}

TEST(ExchangeMeterTest, WhileTheProgramSetsThePaceNothingIsMeasured) {
  ExchangeMeter meter(milliseconds(10));
  meter.Begin(1);
  for (int i = 0; i < 100; ++i) {
    meter.OnPush(0);
    meter.OnAnswered(0, 1000, false, At(20 * i));
  }
  EXPECT_FALSE(meter.Take().has_value());
  meter.OnPush(0);
  meter.OnAnswered(0, 1000, true, At(2000));
  EXPECT_FALSE(meter.Take().has_value()) << "the time before the credit was used up is no part";
}

TEST(ExchangeMeterTest, AStandstillIsNoSlowLink) {
  ExchangeMeter meter(milliseconds(10));
  meter.Begin(1);
  for (int i = 0; i < 3; ++i) meter.OnPush(0);
  meter.OnAnswered(0, 1000, true, At(0));
  meter.OnAnswered(0, 1000, true, At(5000));
  EXPECT_FALSE(meter.Take().has_value());
  meter.OnAnswered(0, 1000, true, At(5010));
  EXPECT_EQ(meter.Take()->active, milliseconds(10));
}

TEST(ExchangeMeterTest, APauseOfAQuarterOfASecondIsStillPartOfTheLink) {
  for (int pause : {250, 251}) {
    ExchangeMeter meter(milliseconds(10));
    meter.Begin(1);
    meter.OnAnswered(0, 1000, true, At(0));
    meter.OnAnswered(0, 1000, true, At(pause));
    EXPECT_EQ(meter.Take().has_value(), pause == 250);
  }
}

TEST(ExchangeMeterTest, WhileNothingIsUnderWayNothingIsMeasured) {
  ExchangeMeter meter(milliseconds(10));
  meter.Begin(2);
  for (ShardId shard : {0U, 1U}) meter.OnPush(shard);
  meter.OnAnswered(0, 1000, true, At(0));
  meter.OnIdle();
  meter.OnAnswered(0, 1000, true, At(20));
  EXPECT_FALSE(meter.Take().has_value()) << "the pause was the program's";
  meter.OnAnswered(0, 1000, true, At(30));
  auto measurement = meter.Take();
  ASSERT_TRUE(measurement.has_value());
  EXPECT_EQ(measurement->active, milliseconds(10));
  EXPECT_EQ(measurement->shards[1].busy, milliseconds(0))
      << "what was pushed before is not awaited";
}

TEST(ExchangeMeterTest, AMeasurementThatIsBegunAnewHasNothingOfBefore) {
  ExchangeMeter meter(milliseconds(10));
  meter.Begin(1);
  meter.OnAnswered(0, 1000, true, At(0));
  meter.OnAnswered(0, 1000, true, At(8));
  meter.Restart();
  meter.OnAnswered(0, 1000, true, At(12));
  EXPECT_FALSE(meter.Take().has_value());
  meter.OnAnswered(0, 1000, true, At(22));
  EXPECT_EQ(meter.Take()->shards[0].bytes, 1000u);
}

TEST(ExchangeMeterTest, WhatWasUnderWayBeforeIsForgotten) {
  ExchangeMeter meter(milliseconds(10));
  meter.Begin(2);
  for (int i = 0; i < 4; ++i) meter.OnPush(1);
  meter.OnPush(0);
  meter.Drop(1);
  meter.OnAnswered(0, 1, true, At(0));
  meter.OnPush(0);
  meter.OnAnswered(0, 1, true, At(10));
  EXPECT_EQ(meter.Take()->shards[1].busy, milliseconds(0));
  meter.OnPush(1);
  meter.Begin(2);
  meter.OnAnswered(1, 1, true, At(20));
  meter.OnAnswered(1, 1, true, At(30));
  EXPECT_EQ(meter.Take()->shards[1].busy, milliseconds(0));
}

TEST(ExchangeMeterTest, ABurstLastsUntilNothingIsUnderWay) {
  ExchangeMeter meter(milliseconds(100));
  meter.Begin(1);
  meter.OnIdle();
  meter.OnAnswered(0, 1000, false, At(0));
  meter.OnAnswered(0, 1000, true, At(100));  // it begins here
  meter.OnAnswered(0, 2000, true, At(140));
  meter.OnAnswered(0, 3000, false, At(160));
  meter.OnAnswered(0, 4000, false, At(190));
  meter.OnIdle();
  meter.OnAnswered(0, 1000, true, At(500));
  meter.OnAnswered(0, 1000, true, At(570));
  auto measurement = meter.Take();
  ASSERT_TRUE(measurement.has_value());
  EXPECT_EQ(measurement->active, milliseconds(110))
      << "the rest is no time in which all were held up";
  EXPECT_EQ(measurement->burst_bytes, 9000u);
  EXPECT_EQ(measurement->bursts, milliseconds(90));
  meter.OnAnswered(0, 1000, true, At(700));
  EXPECT_EQ(meter.Take()->burst_bytes, 0u) << "the second one has not ended";
  meter.OnIdle();
  meter.OnAnswered(0, 1000, true, At(800));
  meter.OnAnswered(0, 1000, true, At(900));
  EXPECT_EQ(meter.Take()->bursts, milliseconds(200));
}

TEST(ExchangeMeterTest, ABurstInWhichTheViewChangedIsNotCounted) {
  ExchangeMeter meter(milliseconds(10));
  meter.Begin(1);
  meter.OnIdle();
  meter.OnAnswered(0, 1000, true, At(0));
  meter.Restart();
  for (int ms : {10, 20}) meter.OnAnswered(0, 1000, true, At(ms));
  meter.OnIdle();
  EXPECT_EQ(meter.Take()->bursts, milliseconds(0));
  for (int ms : {100, 115}) meter.OnAnswered(0, 1000, true, At(ms));
  meter.OnIdle();
  EXPECT_EQ(meter.Take()->bursts, milliseconds(15));
}

}  // namespace
}  // namespace byteps::plan
