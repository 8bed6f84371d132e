#include "src/protocol/control/members/listening_clock.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

constexpr Duration kStep = milliseconds(25);

// Calls the clock. The thing that its owner waits for is far away.
void CallAt(ListeningClock& clock, Time outside) {
  clock.Advance(outside);
  clock.WaitFor(clock.now() + seconds(100));
}

TEST(ListeningClockTest, CountsWhileItIsCalledInTime) {
  ListeningClock clock(Time(seconds(7)), kStep);
  CallAt(clock, Time(seconds(7)));
  for (int i = 1; i <= 40; ++i) CallAt(clock, Time(seconds(7) + i * milliseconds(40)));
  EXPECT_EQ(clock.now(), Time(seconds(7) + milliseconds(1600)));
}

TEST(ListeningClockTest, AsksOncePerStepAndForWhatIsDueSooner) {
  ListeningClock clock(Time{}, kStep);
  EXPECT_FALSE(clock.NextCall().has_value());
  clock.WaitFor(Time(seconds(1)));
  EXPECT_EQ(clock.NextCall(), Time(kStep));
  clock.WaitFor(Time(milliseconds(3)));
  EXPECT_EQ(clock.NextCall(), Time(milliseconds(3)));
  clock.WaitFor(std::nullopt);
  EXPECT_FALSE(clock.NextCall().has_value());
}

TEST(ListeningClockTest, ANightAsleepAndTheReadingAfterItDoNotCount) {
  ListeningClock clock(Time{}, kStep);
  CallAt(clock, Time{});
  Time night(std::chrono::hours(8));
  CallAt(clock, night);
  EXPECT_EQ(clock.now(), Time{});
  for (int i = 1; i <= 4; ++i) CallAt(clock, night + i * kStep);
  EXPECT_EQ(clock.now(), Time{}) << "it read";
  CallAt(clock, night + 5 * kStep);
  EXPECT_EQ(clock.now(), Time(kStep));
}

TEST(ListeningClockTest, WhatIsDueAfterTheReadingIsAskedForInTime) {
  ListeningClock clock(Time{}, kStep);
  CallAt(clock, Time{});
  CallAt(clock, Time(seconds(1)));
  for (int i = 1; i <= 4; ++i) CallAt(clock, Time(seconds(1) + i * kStep - milliseconds(5)));
  clock.WaitFor(Time(milliseconds(2)));
  EXPECT_EQ(clock.NextCall(), Time(seconds(1) + 4 * kStep + milliseconds(2)));
  clock.WaitFor(Time{});
  EXPECT_EQ(clock.NextCall(), Time(seconds(1) + 4 * kStep - milliseconds(5))) << "due already";
}

TEST(ListeningClockTest, WhoWaitsForNothingIsNeverLate) {
  ListeningClock clock(Time{}, kStep);
  clock.Advance(Time(seconds(9)));
  EXPECT_EQ(clock.now(), Time(seconds(9)));
}

TEST(ListeningClockTest, WhoIsAlwaysLateGetsOn) {
  ListeningClock clock(Time{}, kStep);
  CallAt(clock, Time{});
  for (int i = 1; i <= 41; ++i) CallAt(clock, Time(i * seconds(2)));
  EXPECT_EQ(clock.now(), Time(40 * kStep));
}

TEST(ListeningClockTest, TimeThatGoesBackIsNoTime) {
  ListeningClock clock(Time(seconds(5)), kStep);
  CallAt(clock, Time(seconds(5)));
  CallAt(clock, Time(seconds(3)));
  EXPECT_EQ(clock.now(), Time(seconds(5)));
  CallAt(clock, Time(seconds(3) + kStep));
  EXPECT_EQ(clock.now(), Time(seconds(5) + kStep));
}

}  // namespace
}  // namespace byteps::protocol
