#include "src/protocol/control/members/listening_clock.h"

#include <algorithm>

namespace byteps::protocol {

void ListeningClock::Advance(Time outside) {
  bool late = next_call_.has_value() && outside > *next_call_ + 2 * step_;
  Duration passed = std::max(outside - outside_, Duration::zero());
  outside_ = outside;
  if (late) {
    if (to_read_ > Duration::zero()) now_ += step_;
    to_read_ = 4 * step_;
    return;
  }
  Duration read = std::min(passed, to_read_);
  to_read_ -= read;
  now_ += passed - read;
}

void ListeningClock::WaitFor(std::optional<Time> due) {
  next_call_.reset();
  if (!due.has_value()) return;
  Duration rest = *due - now_;
  rest = rest > Duration::zero() ? rest + to_read_ : Duration::zero();
  next_call_ = outside_ + std::min(rest, step_);
}

}  // namespace byteps::protocol
