// Time that counts for judging others: that in which this process listened.
//
// A process that was stopped, or whose clock jumped, has read nothing meanwhile: silence in that
// time, and deadlines that passed in it, prove nothing. It notices because it is called later than
// it asked to be. Such a gap does not count, nor does the short time after it in which it reads
// what has piled up. Who is late again and again still gets on, by a step for each time.
//
// A value without I/O. `now` never goes back and starts as the outside time; it falls behind that.
#pragma once

#include <optional>

#include "src/base/time.h"

namespace byteps::protocol {

class ListeningClock {
 public:
  // It asks to be called once per `step` while it waits for something, is late after two, and reads
  // for four.
  ListeningClock(Time outside, Duration step) : step_(step), outside_(outside), now_(outside) {}

  // Its owner is called.
  void Advance(Time outside);
  Time now() const { return now_; }

  // The call ends; what its owner waits for is due then.
  void WaitFor(std::optional<Time> due);
  // When to call the owner again, in outside time; none: it waits for nothing.
  std::optional<Time> NextCall() const { return next_call_; }

 private:
  const Duration step_;
  Time outside_;
  Time now_;
  Duration to_read_{};  // time that will not count
  std::optional<Time> next_call_;
};

}  // namespace byteps::protocol
