#include "src/plan/move_trial.h"

#include <algorithm>
#include <utility>

namespace byteps::plan {
namespace {

// A move pays if the job becomes faster by a quarter of the promised gain in one of so many
// periods.
constexpr double kPart = 0.25;
constexpr uint32_t kPeriodsOfTrial = 3;
// After a move in vain, periods until the next one; twice as many after each further one.
constexpr uint32_t kWait = 40;
constexpr uint32_t kDoublingsMax = 6;
// If a move that promised little makes the job slower than this, the trial ends at once. A job that
// is slower than this for so many periods without a move has changed: then the wait ends.
constexpr double kSlower = 0.9;
constexpr uint32_t kSlowPeriods = 3;

}  // namespace

void MoveTrial::Begin(std::vector<double> shares, const Pace& pace, double gain, bool is_known) {
  before_ = std::move(shares);
  pace_ = pace;
  gain_ = gain;
  is_known_ = is_known;
  periods_ = 0;
  silent_ = 0;
}

bool MoveTrial::HasChanged(const Pace& pace) {
  slow_ = pace.full < kSlower * pace_.full ? slow_ + 1 : 0;
  return slow_ >= kSlowPeriods;
}

// Returns the pace as a part of the pace before the move; nothing if this period does not tell.
std::optional<double> MoveTrial::PartOfBefore(const Pace& pace) {
  const double full = pace.full / pace_.full;
  if (pace_.bursts <= 0 || silent_ >= kPeriodsWithoutBursts) return full;
  if (PromisedMuch()) return std::max(full, pace.bursts / pace_.bursts);
  if (pace.bursts > 0) return pace.bursts / pace_.bursts;
  ++silent_;
  return std::nullopt;
}

// Returns whether the move slows the job down. If the move promised much, the reason of a slower
// job is other work on the processors.
bool MoveTrial::Harms(const Pace& pace) const {
  const bool in_bursts = pace.bursts > 0 && pace.bursts < kSlower * pace_.bursts;
  return !PromisedMuch() && (in_bursts || pace.full < kSlower * pace_.full);
}

std::optional<std::vector<double>> MoveTrial::Observe(const Pace& pace) {
  has_paid_ = false;
  if (before_.empty()) {
    if (waits_ > 0) --waits_;
    if (waits_ > 0 && HasChanged(pace)) waits_ = 0;
    return std::nullopt;
  }
  const std::optional<double> part = PartOfBefore(pace);
  if (part.has_value() && *part >= 1 + kPart * (gain_ - 1)) {
    before_.clear();
    has_paid_ = true;
    in_vain_ = 0;
    waits_ = 0;
    return std::nullopt;
  }
  if (part.has_value()) ++periods_;
  if (periods_ < kPeriodsOfTrial && !Harms(pace)) return std::nullopt;
  waits_ = kWait << std::min(in_vain_++, kDoublingsMax);
  slow_ = 0;
  return std::exchange(before_, {});
}

}  // namespace byteps::plan
