#include "src/session/speed_meter.h"

namespace byteps::session {
namespace {

SpeedMeter::Sample SampleOf(uint64_t bytes, SpeedMeter::Clock::time_point begun,
                            const SpeedMeter::Moment& now) {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  auto window = duration_cast<milliseconds>(now.at - begun);
  auto end = duration_cast<milliseconds>(now.wall.time_since_epoch());
  SpeedMeter::Sample sample;
  sample.window_ms = static_cast<uint64_t>(window.count());
  sample.end_ms_since_epoch = static_cast<uint64_t>(end.count());
  if (window.count() > 0) {
    sample.megabytes_per_second =
        static_cast<double>(bytes) / 1e3 / static_cast<double>(window.count());
  }
  return sample;
}

}  // namespace

// Divides by the time that really passed, and not by the nominal window.
void SpeedMeter::FinishWindow(const Moment& now) {
  if (begun_ == Clock::time_point() || now.at - begun_ < kWindow) return;
  finished_.push_back(SampleOf(bytes_, begun_, now));
  if (finished_.size() > kWindowsKept) finished_.pop_front();
  begun_ = Clock::time_point();
  bytes_ = 0;
}

void SpeedMeter::Count(uint64_t bytes, const Moment& now) {
  MutexLock lock(mutex_);
  FinishWindow(now);
  if (begun_ == Clock::time_point()) begun_ = now.at;
  bytes_ += bytes;
}

SpeedMeter::Sample SpeedMeter::Take(const Moment& now) {
  MutexLock lock(mutex_);
  FinishWindow(now);
  if (!finished_.empty()) {
    Sample sample = finished_.front();
    finished_.pop_front();
    return sample;
  }
  if (begun_ == Clock::time_point()) return {};
  return SampleOf(bytes_, begun_, now);
}

}  // namespace byteps::session
