#include "src/session/speed_meter.h"

#include <gtest/gtest.h>

namespace byteps::session {
namespace {

using std::chrono::seconds;

TEST(SpeedMeterTest, NothingCountedIsNothing) {
  SpeedMeter meter;
  EXPECT_EQ(meter.Take(SpeedMeter::Clock::time_point(seconds(100))).window_ms, 0u);
}

TEST(SpeedMeterTest, TheRateIsOverTheTimeThatPassed) {
  SpeedMeter meter;
  SpeedMeter::Clock::time_point start(seconds(1000));
  meter.Count(50'000'000, start);
  meter.Count(150'000'000, start + seconds(5));
  SpeedMeter::Sample sample = meter.Take(start + seconds(20));
  EXPECT_EQ(sample.window_ms, 20000u);
  EXPECT_DOUBLE_EQ(sample.megabytes_per_second, 10.0);
  EXPECT_EQ(sample.end_ms_since_epoch, 1'020'000u);
  EXPECT_EQ(meter.Take(start + seconds(21)).window_ms, 0u);
}

TEST(SpeedMeterTest, AnUnfinishedWindowIsShownAndKept) {
  SpeedMeter meter;
  SpeedMeter::Clock::time_point start(seconds(1000));
  meter.Count(4'000'000, start);
  EXPECT_DOUBLE_EQ(meter.Take(start + seconds(2)).megabytes_per_second, 2.0);
  EXPECT_DOUBLE_EQ(meter.Take(start + seconds(4)).megabytes_per_second, 1.0);
}

TEST(SpeedMeterTest, FinishedWindowsComeOldestFirst) {
  SpeedMeter meter;
  SpeedMeter::Clock::time_point start(seconds(1000));
  meter.Count(10'000'000, start);
  meter.Count(40'000'000, start + seconds(10));
  EXPECT_DOUBLE_EQ(meter.Take(start + seconds(20)).megabytes_per_second, 1.0);
  EXPECT_DOUBLE_EQ(meter.Take(start + seconds(20)).megabytes_per_second, 4.0);
}

}  // namespace
}  // namespace byteps::session
