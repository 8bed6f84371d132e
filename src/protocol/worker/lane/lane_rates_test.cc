#include <gtest/gtest.h>

#include "src/protocol/worker/lane/lane.h"
#include "src/protocol/worker/lane/lane_for_test.h"

namespace byteps::protocol {
namespace {

// One lane has four shards with a piece each, and credit for two pieces.
class LaneRatesTest : public LaneForTest {
 protected:
  LaneRatesTest() : LaneForTest(0, 1, 4) {
    options.credit.fixed_bytes = 128;
    lane = std::make_unique<Lane>(options, pool, arithmetic, driver);
    lane->OnMail(to_lane::View{std::make_shared<const wire::View>(view), 0});
    for (ShardId shard = 0; shard < 4; ++shard) lane->OnShardUp(shard);
    lane->OnMail(to_lane::Begin{&exchange});
  }

  void Answer(uint32_t number, int ms) {
    wire::DataHeader header;
    for (const auto& push : driver.pushes) {
      if (push.header.ref.piece == number) header = push.header;
    }
    header.count = 1;
    header.unstable = 1;
    ASSERT_TRUE(lane->OnAnswerHeader(number, header, 4).ok());
    lane->OnAnswer(number, Time(milliseconds(ms)));
  }

  std::unique_ptr<Lane> lane;
};

TEST_F(LaneRatesTest, WhileTheCreditIsUsedUpItMeasuresAndTells) {
  ASSERT_EQ(driver.pushes.size(), 2U);
  Answer(0, 1000);
  EXPECT_TRUE(driver.Told<to_front::Measured>().empty());
  Answer(1, 1150);
  const auto told = driver.Told<to_front::Measured>();
  ASSERT_EQ(told.size(), 1U);
  const wire::Rates& rates = told[0].rates;
  EXPECT_EQ(rates.epoch, view.epoch);
  // Shard 1 had a piece under way all the time, shard 2 since the first answer.
  EXPECT_EQ(rates.shards, (std::vector<wire::ShardRate>{{0, 0, 0, 150'000},
                                                        {1, 4, 150'000, 150'000},
                                                        {2, 0, 150'000, 150'000},
                                                        {3, 0, 0, 150'000}}));
}

TEST_F(LaneRatesTest, AtTheEndOfAStepNothingIsMeasured) {
  Answer(0, 1000);
  Answer(1, 1050);
  Answer(2, 1200);
  Answer(3, 1400);
  EXPECT_TRUE(driver.Told<to_front::Measured>().empty());
}

TEST_F(LaneRatesTest, AnotherViewBeginsAnotherMeasurement) {
  Answer(0, 1000);
  ++view.epoch;
  lane->OnMail(to_lane::View{std::make_shared<const wire::View>(view), 0});
  lane->OnMail(to_lane::TakeOver{view.epoch, {}});
  Answer(1, 1150);
  EXPECT_TRUE(driver.Told<to_front::Measured>().empty());
}

}  // namespace
}  // namespace byteps::protocol
