#include "src/session/speed_meter.h"

#include <gtest/gtest.h>

namespace byteps::session {
namespace {

using std::chrono::seconds;

// Returns a moment after the beginning. `set`: by how much somebody has set the wall clock.
SpeedMeter::Moment At(seconds passed, seconds set = seconds(0)) {
  return {SpeedMeter::Clock::time_point(seconds(5) + passed),
          std::chrono::system_clock::time_point(seconds(1000) + passed + set)};
}

TEST(SpeedMeterTest, NothingCountedIsNothing) {
  SpeedMeter meter;
  EXPECT_EQ(meter.Take(At(seconds(100))).interval_ms, 0u);
}

TEST(SpeedMeterTest, TheRateIsOverTheTimeThatPassed) {
  SpeedMeter meter;
  meter.Count(50'000'000, At(seconds(0)));
  meter.Count(150'000'000, At(seconds(5)));
  SpeedMeter::Sample sample = meter.Take(At(seconds(20)));
  EXPECT_EQ(sample.interval_ms, 20000u);
  EXPECT_DOUBLE_EQ(sample.megabytes_per_second, 10.0);
  EXPECT_EQ(sample.end_ms_since_epoch, 1'020'000u);
  EXPECT_EQ(meter.Take(At(seconds(21))).interval_ms, 0u);
}

TEST(SpeedMeterTest, AnUnfinishedIntervalIsShownAndKept) {
  SpeedMeter meter;
  meter.Count(4'000'000, At(seconds(0)));
  EXPECT_DOUBLE_EQ(meter.Take(At(seconds(2))).megabytes_per_second, 2.0);
  EXPECT_DOUBLE_EQ(meter.Take(At(seconds(4))).megabytes_per_second, 1.0);
}

TEST(SpeedMeterTest, AClockThatIsSetChangesNoRate) {
  SpeedMeter meter;
  meter.Count(50'000'000, At(seconds(0)));
  SpeedMeter::Sample sample = meter.Take(At(seconds(10), seconds(-900)));
  EXPECT_EQ(sample.interval_ms, 10000u);
  EXPECT_DOUBLE_EQ(sample.megabytes_per_second, 5.0);
  EXPECT_EQ(sample.end_ms_since_epoch, 110'000u);
}

TEST(SpeedMeterTest, FinishedIntervalsComeOldestFirst) {
  SpeedMeter meter;
  meter.Count(10'000'000, At(seconds(0)));
  meter.Count(40'000'000, At(seconds(10)));
  EXPECT_DOUBLE_EQ(meter.Take(At(seconds(20))).megabytes_per_second, 1.0);
  EXPECT_DOUBLE_EQ(meter.Take(At(seconds(20))).megabytes_per_second, 4.0);
}

}  // namespace
}  // namespace byteps::session
