#include "src/session/speed_meter.h"

namespace byteps::session {
namespace {

SpeedMeter::Sample SampleOf(uint64_t bytes, SpeedMeter::Clock::time_point begun,
                            const SpeedMeter::Moment& now) {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  auto interval = duration_cast<milliseconds>(now.at - begun);
  auto end = duration_cast<milliseconds>(now.wall.time_since_epoch());
  SpeedMeter::Sample sample;
  sample.interval_ms = static_cast<uint64_t>(interval.count());
  sample.end_ms_since_epoch = static_cast<uint64_t>(end.count());
  if (interval.count() > 0) {
    sample.megabytes_per_second =
        static_cast<double>(bytes) / 1e3 / static_cast<double>(interval.count());
  }
  return sample;
}

}  // namespace

// Divides by the time that really passed, and not by the nominal interval.
void SpeedMeter::FinishInterval(const Moment& now) {
  if (begun_ == Clock::time_point() || now.at - begun_ < kInterval) return;
  finished_.push_back(SampleOf(bytes_, begun_, now));
  if (finished_.size() > kIntervalsKept) finished_.pop_front();
  begun_ = Clock::time_point();
  bytes_ = 0;
}

void SpeedMeter::Count(uint64_t bytes, const Moment& now) {
  MutexLock lock(mutex_);
  FinishInterval(now);
  if (begun_ == Clock::time_point()) begun_ = now.at;
  bytes_ += bytes;
}

SpeedMeter::Sample SpeedMeter::Take(const Moment& now) {
  MutexLock lock(mutex_);
  FinishInterval(now);
  if (!finished_.empty()) {
    Sample sample = finished_.front();
    finished_.pop_front();
    return sample;
  }
  if (begun_ == Clock::time_point()) return {};
  return SampleOf(bytes_, begun_, now);
}

}  // namespace byteps::session
