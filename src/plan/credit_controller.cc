#include "src/plan/credit_controller.h"

#include <algorithm>

#include "src/plan/wide.h"

namespace byteps::plan {
namespace {

// A new measurement moves the credit by this part of the difference.
constexpr int64_t kSmoothing = 4;

}  // namespace

CreditController::CreditController(const CreditOptions& options) : options_(options) {
  const uint64_t spread = uint64_t{2} * options.shards * options.piece_bytes_max;
  lowest_ = std::max({options.bytes_min, spread, uint64_t{1}});
  highest_ = std::max(options.bytes_max, lowest_);
  credit_bytes_ = options.fixed_bytes != 0 ? options.fixed_bytes : lowest_;
}

void CreditController::OnAnswered(Time now, uint64_t bytes, bool window_full) {
  if (options_.fixed_bytes != 0) return;
  if (!window_full) {
    measuring_ = false;
    return;
  }
  if (measuring_) {
    const Duration elapsed = now - interval_start_;
    interval_bytes_ += bytes;
    if (elapsed < options_.interval_min || elapsed <= Duration::zero()) return;
    if (elapsed <= options_.interval_max) {
      const Uint128 sample = Uint128{interval_bytes_} *
                             static_cast<uint64_t>(options_.target.count()) /
                             static_cast<uint64_t>(elapsed.count());
      Learn(static_cast<uint64_t>(std::min<Uint128>(sample, highest_)));
    }
  }
  measuring_ = true;
  interval_start_ = now;
  interval_bytes_ = 0;
}

// A sample is cut to the bounds first, so that one burst cannot hold the credit up for long.
void CreditController::Learn(uint64_t sample_bytes) {
  const uint64_t sample = std::clamp(sample_bytes, lowest_, highest_);
  if (!measured_) {
    measured_ = true;
    credit_bytes_ = sample;
    return;
  }
  const int64_t difference = static_cast<int64_t>(sample - credit_bytes_);
  credit_bytes_ += static_cast<uint64_t>(difference / kSmoothing);
}

}  // namespace byteps::plan
