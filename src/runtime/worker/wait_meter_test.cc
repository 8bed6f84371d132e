#include "src/runtime/worker/wait_meter.h"

#include <gtest/gtest.h>

namespace byteps::runtime {
namespace {

Time At(int second) { return Time(seconds(second)); }

TEST(WaitMeterTest, TimeCountsOnceHoweverManyWait) {
  WaitMeter meter;
  EXPECT_EQ(meter.Waited(At(5)), Duration::zero());
  meter.Begin(At(10));
  meter.Begin(At(11));
  EXPECT_EQ(meter.Waited(At(12)), seconds(2));
  meter.End(At(13));
  EXPECT_EQ(meter.Waited(At(14)), seconds(4)) << "the other one still waits";
  meter.End(At(15));
  EXPECT_EQ(meter.Waited(At(20)), seconds(5));
  meter.Begin(At(30));
  meter.End(At(32));
  EXPECT_EQ(meter.Waited(At(40)), seconds(7));
}

TEST(WaitMeterTest, AScopeIsAWait) {
  auto meter = std::make_shared<WaitMeter>();
  {
    const WaitMeter::Scope waits(meter);
    const Time now = std::chrono::steady_clock::now();
    EXPECT_EQ(meter->Waited(now + seconds(2)) - meter->Waited(now + seconds(1)), seconds(1));
  }
  const Time now = std::chrono::steady_clock::now();
  EXPECT_EQ(meter->Waited(now + seconds(2)), meter->Waited(now + seconds(1)));
}

}  // namespace
}  // namespace byteps::runtime
