#include "src/plan/move_trial.h"

#include <algorithm>
#include <utility>

namespace byteps::plan {
namespace {

// A move pays if the job becomes faster by a quarter of what was promised in one of so many series.
constexpr double kPart = 0.25;
constexpr uint32_t kSeriesOfTrial = 3;
// After a move in vain, series until the next one; twice as many after each further one.
constexpr uint32_t kWait = 40;
constexpr uint32_t kDoublingsMax = 6;
// A job that is slower than this, in so many series, has changed: then there is no wait.
constexpr double kSlower = 0.9;
constexpr uint32_t kSlowSeries = 3;

}  // namespace

void MoveTrial::Begin(std::vector<double> shares, double pace, double gain) {
  before_ = std::move(shares);
  pace_ = pace;
  wanted_ = pace * (1 + kPart * (gain - 1));
  series_ = 0;
}

bool MoveTrial::HasChanged(double pace) {
  slow_ = pace < kSlower * pace_ ? slow_ + 1 : 0;
  return slow_ >= kSlowSeries;
}

std::optional<std::vector<double>> MoveTrial::Observe(double pace) {
  if (before_.empty()) {
    if (waits_ > 0) --waits_;
    if (waits_ > 0 && HasChanged(pace)) waits_ = 0;
    return std::nullopt;
  }
  if (pace >= wanted_) {
    before_.clear();
    in_vain_ = 0;
    return std::nullopt;
  }
  if (++series_ < kSeriesOfTrial) return std::nullopt;
  waits_ = kWait << std::min(in_vain_++, kDoublingsMax);
  slow_ = 0;
  return std::exchange(before_, {});
}

}  // namespace byteps::plan
