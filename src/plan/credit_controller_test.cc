#include "src/plan/credit_controller.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>

namespace byteps::plan {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint32_t kPiece = 32768;

CreditOptions Options(uint32_t shards = 4) {
  CreditOptions options;
  options.shards = shards;
  options.piece_bytes_max = kPiece;
  return options;
}

// Plays a link that brings a piece every `gap`, by default while the credit is used up.
void Receive(CreditController& controller, Time& now, Duration gap, int pieces, bool full = true) {
  for (int i = 0; i < pieces; ++i) {
    now += gap;
    controller.OnAnswered(now, kPiece, full);
  }
}

TEST(CreditControllerTest, StartsAtTheLowest) {
  EXPECT_EQ(CreditController(Options()).credit_bytes(), kMiB);
}

TEST(CreditControllerTest, FollowsTheRateOfTheLink) {
  CreditController controller(Options());
  Time now;
  // 32 KiB every 500 us are 65.5 MB/s: 2.6 MB in 40 ms.
  Receive(controller, now, microseconds(500), 1000);
  EXPECT_EQ(controller.credit_bytes(), kPiece * 80U);
  // The link slows to a third of that: below the lowest, so the credit goes there.
  Receive(controller, now, milliseconds(2), 1000);
  EXPECT_NEAR(static_cast<double>(controller.credit_bytes()), kMiB, 16);
}

TEST(CreditControllerTest, StaysWithinItsBounds) {
  CreditController fast(Options());
  Time now;
  Receive(fast, now, microseconds(10), 10'000);
  EXPECT_EQ(fast.credit_bytes(), 4 * kMiB);
  CreditController slow(Options());
  Receive(slow, now, milliseconds(50), 100);
  EXPECT_EQ(slow.credit_bytes(), kMiB);
}

TEST(CreditControllerTest, EveryShardKeepsTwoPiecesWhateverTheBounds) {
  EXPECT_EQ(CreditController(Options(24)).credit_bytes(), 2U * 24 * kPiece);
  CreditController controller(Options(1000));
  EXPECT_EQ(controller.credit_bytes(), 2000U * kPiece);
  Time now;
  Receive(controller, now, microseconds(10), 10'000);
  EXPECT_EQ(controller.credit_bytes(), 2000U * kPiece);
}

TEST(CreditControllerTest, AFixedCreditStaysFixed) {
  CreditOptions options = Options();
  options.fixed_bytes = kPiece;
  CreditController controller(options);
  Time now;
  Receive(controller, now, microseconds(100), 10'000);
  EXPECT_EQ(controller.credit_bytes(), kPiece);
}

TEST(CreditControllerTest, AnUnusedCreditTeachesNothing) {
  CreditController controller(Options());
  Time now;
  Receive(controller, now, microseconds(500), 1000);
  const uint64_t learnt = controller.credit_bytes();
  // The application sends little, which says nothing about the link.
  Receive(controller, now, milliseconds(10), 1000, /*full=*/false);
  EXPECT_EQ(controller.credit_bytes(), learnt);
  // A used-up credit that is cut short again and again is no measurement either.
  for (int i = 0; i < 100; ++i) {
    Receive(controller, now, milliseconds(5), 3, /*full=*/true);
    Receive(controller, now, milliseconds(5), 1, /*full=*/false);
  }
  EXPECT_EQ(controller.credit_bytes(), learnt);
}

// A tensor of 100 MB is over after 4 ms on a link of 200 Gbit/s.
TEST(CreditControllerTest, AFastLinkTeachesThoughItsTensorsAreShort) {
  CreditController controller(Options());
  controller.SetRoundTrip(microseconds(40));
  Time now;
  Receive(controller, now, Duration(1311), 3000);
  now += milliseconds(100);
  Receive(controller, now, Duration(1311), 1, /*full=*/false);
  // 8 round trips of 40 us at 25 GB/s.
  EXPECT_NEAR(static_cast<double>(controller.credit_bytes()), 8e6, 1e5);
}

TEST(CreditControllerTest, UpTo10GbitTensorsOfLessThan20MsTeachNothing) {
  CreditController controller(Options());
  Time now;
  for (int tensor = 0; tensor < 10; ++tensor) {
    Receive(controller, now, Duration(26214), 750);  // 1.25 GB/s
    Receive(controller, now, milliseconds(5), 1, /*full=*/false);
  }
  EXPECT_EQ(controller.credit_bytes(), kMiB);
}

// A thread that was late finds a whole credit of answers.
TEST(CreditControllerTest, WhatHadPiledUpDoesNotDecide) {
  CreditController controller(Options());
  Time now;
  for (int late = 0; late < 10; ++late) {
    Receive(controller, now, milliseconds(15), 1);
    Receive(controller, now, Duration(1), kMiB / kPiece);
    Receive(controller, now, milliseconds(1), 1, /*full=*/false);
  }
  EXPECT_EQ(controller.credit_bytes(), kMiB);
}

TEST(CreditControllerTest, AStandstillTeachesNothing) {
  CreditController controller(Options());
  Time now;
  Receive(controller, now, microseconds(500), 1000);
  const uint64_t learnt = controller.credit_bytes();
  Receive(controller, now, seconds(3), 1);
  EXPECT_EQ(controller.credit_bytes(), learnt);
  Receive(controller, now, microseconds(500), 1000);
  EXPECT_EQ(controller.credit_bytes(), learnt);
}

TEST(CreditControllerTest, OneOddMeasurementMovesItByAQuarter) {
  CreditController controller(Options());
  Time now;
  Receive(controller, now, microseconds(500), 1001);
  const uint64_t learnt = controller.credit_bytes();
  Receive(controller, now, microseconds(4000), 1000 / 200);
  EXPECT_GE(controller.credit_bytes(), learnt - (learnt - kMiB) / 4 - 1);
  EXPECT_LT(controller.credit_bytes(), learnt);
}

TEST(CreditControllerTest, ALongPathGetsEightRoundTrips) {
  CreditController controller(Options());
  controller.SetRoundTrip(milliseconds(50));
  Time now;
  // 65.5 MB/s: 3.3 MB in a round trip.
  Receive(controller, now, microseconds(500), 10'000);
  EXPECT_NEAR(static_cast<double>(controller.credit_bytes()), kPiece * 800.0, kPiece);
  // The path becomes short, so the rate alone decides again.
  controller.SetRoundTrip(microseconds(100));
  Receive(controller, now, microseconds(500), 10'000);
  EXPECT_NEAR(static_cast<double>(controller.credit_bytes()), kPiece * 80.0, 16);
}

// While the credit is too small, the bytes that come back in a round trip are the credit itself.
TEST(CreditControllerTest, ACreditThatIsTheLimitGrowsUntilTheLinkIs) {
  CreditController controller(Options());
  const Duration round_trip = milliseconds(50);
  controller.SetRoundTrip(round_trip);
  Time now;
  const double link = 62.5e6;
  for (int i = 0; i < 40; ++i) {
    const double rate = std::min(link, static_cast<double>(controller.credit_bytes()) /
                                           std::chrono::duration<double>(round_trip).count());
    Receive(controller, now, Duration(static_cast<int64_t>(kPiece / rate * 1e9)), 200);
  }
  EXPECT_GE(static_cast<double>(controller.credit_bytes()), 7.8 * link * 0.05);
}

TEST(CreditControllerTest, AFastLinkGetsWhatItsPathHolds) {
  CreditOptions options = Options();
  CreditController controller(options);
  controller.SetRoundTrip(microseconds(500));
  Time now;
  // 100 Gbit/s and 0.5 ms: 6.25 MB in a round trip.
  Receive(controller, now, Duration(2621), 100'000);
  EXPECT_NEAR(static_cast<double>(controller.credit_bytes()), 8 * 6.25e6, 1e5);
  // A usual round trip brings far fewer bytes than 40 ms.
  CreditController near(options);
  near.SetRoundTrip(microseconds(40));
  now = Time();
  Receive(near, now, Duration(2621), 100'000);
  EXPECT_EQ(near.credit_bytes(), 4 * kMiB);
}

TEST(CreditControllerTest, ALongPathHasABoundToo) {
  CreditController controller(Options());
  controller.SetRoundTrip(seconds(1));
  Time now;
  Receive(controller, now, microseconds(10), 1'000'000);
  EXPECT_EQ(controller.credit_bytes(), Options().long_bytes_max);
}

RC_GTEST_PROP(CreditControllerTest, NoAnswersLeaveTheBounds, ()) {
  CreditOptions options = Options(*rc::gen::inRange(1U, 200U));
  CreditController controller(options);
  const uint64_t lowest = std::max<uint64_t>(kMiB, uint64_t{2} * options.shards * kPiece);
  Time now;
  for (int i = 0; i < 500; ++i) {
    now += Duration(*rc::gen::inRange<int64_t>(0, 100'000'000));
    controller.OnAnswered(now, *rc::gen::arbitrary<uint32_t>(), *rc::gen::arbitrary<bool>());
    RC_ASSERT(controller.credit_bytes() >= lowest);
    RC_ASSERT(controller.credit_bytes() <= std::max(lowest, 4 * kMiB));
  }
}

}  // namespace
}  // namespace byteps::plan
