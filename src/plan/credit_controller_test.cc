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

// A link that brings a piece every `gap`, seen through a full window.
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

TEST(CreditControllerTest, AnIdleWindowTeachesNothing) {
  CreditController controller(Options());
  Time now;
  Receive(controller, now, microseconds(500), 1000);
  const uint64_t learnt = controller.credit_bytes();
  // The application sends little: that says nothing about the link.
  Receive(controller, now, milliseconds(10), 1000, /*full=*/false);
  EXPECT_EQ(controller.credit_bytes(), learnt);
  // A full window that is cut short again and again is no measurement either.
  for (int i = 0; i < 100; ++i) {
    Receive(controller, now, milliseconds(5), 3, /*full=*/true);
    Receive(controller, now, milliseconds(5), 1, /*full=*/false);
  }
  EXPECT_EQ(controller.credit_bytes(), learnt);
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
