#include "src/plan/credit_controller.h"

#include <algorithm>

#include "src/plan/wide.h"

namespace byteps::plan {
namespace {

// A new measurement moves the credit by this part of the difference.
constexpr int64_t kSmoothing = 4;

uint64_t BytesIn(Duration time, uint64_t bytes, Duration elapsed, uint64_t most) {
  const Uint128 product =
      Uint128{bytes} * static_cast<uint64_t>(time.count()) / static_cast<uint64_t>(elapsed.count());
  return static_cast<uint64_t>(std::min<Uint128>(product, most));
}

}  // namespace

CreditController::CreditController(const CreditOptions& options) : options_(options) {
  const uint64_t spread = uint64_t{2} * options.shards * options.piece_bytes_max;
  lowest_ = std::max({options.bytes_min, spread, uint64_t{1}});
  highest_ = std::max(options.bytes_max, lowest_);
  credit_bytes_ = options.fixed_bytes != 0 ? options.fixed_bytes : lowest_;
}

void CreditController::OnAnswered(Time now, uint64_t bytes, bool credit_used_up) {
  if (options_.fixed_bytes != 0) return;
  if (!credit_used_up) {
    measuring_ = false;
    return;
  }
  if (measuring_) {
    const Duration elapsed = now - interval_start_;
    interval_bytes_ += bytes;
    // The answers of a long path come in bursts, a round trip apart, so a measurement covers
    // several.
    const Duration shortest = std::max(options_.interval_min, round_trip_);
    const Duration longest = std::max(options_.interval_max, 4 * round_trip_);
    const bool is_long = elapsed >= shortest;
    const bool is_fast = interval_bytes_ / options_.interval_turns >= credit_bytes_;
    if ((!is_long && !is_fast) || elapsed <= Duration::zero()) return;
    if (elapsed <= longest) Learn(interval_bytes_, elapsed);
  }
  measuring_ = true;
  interval_start_ = now;
  interval_bytes_ = 0;
}

// Cuts a sample to the bounds first, so that one burst cannot keep the credit high for long.
void CreditController::Learn(uint64_t bytes, Duration elapsed) {
  const uint64_t usual = BytesIn(options_.target, bytes, elapsed, highest_);
  const uint64_t path =
      BytesIn(options_.round_trips * round_trip_, bytes, elapsed, options_.long_bytes_max);
  const uint64_t sample = std::max({usual, path, lowest_});
  if (!measured_) {
    measured_ = true;
    credit_bytes_ = sample;
    return;
  }
  const int64_t difference = static_cast<int64_t>(sample - credit_bytes_);
  credit_bytes_ += static_cast<uint64_t>(difference / kSmoothing);
}

}  // namespace byteps::plan
