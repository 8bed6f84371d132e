#include "src/runtime/ticker.h"

#include <algorithm>
#include <utility>

namespace byteps::runtime {

Ticker::Ticker(transport::Loop& loop, std::function<std::optional<Time>()> next,
               std::function<void(Time)> tick)
    : loop_(loop), next_(std::move(next)), tick_(std::move(tick)) {}

void Ticker::Arm() {
  if (std::exchange(looks_soon_, true)) return;
  loop_.AfterEvent([this] { Look(); });
}

void Ticker::Look() {
  looks_soon_ = false;
  std::optional<Time> next = next_();
  // Keeps a timer that rings too early, which only looks again. Setting the timer anew at every
  // event would cost more.
  if (!next.has_value() || (armed_.has_value() && *armed_ <= *next)) return;
  armed_ = next;
  Duration delay = std::max<Duration>(*next - loop_.Now(), Duration::zero());
  timer_ = loop_.After(delay, [this] { OnTimer(); });
}

void Ticker::OnTimer() {
  armed_.reset();
  Time now = loop_.Now();
  std::optional<Time> due = next_();
  if (due.has_value() && *due <= now) tick_(now);
  Look();
}

}  // namespace byteps::runtime
