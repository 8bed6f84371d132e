// The time in which this process listened. Only this time counts when the coordinator judges other
// processes.
//
// A process that was stopped, or whose clock jumped, has read nothing meanwhile. Silence in that
// time, and deadlines that passed in it, prove nothing. The process notices the gap because it is
// called later than it asked to be. Such a gap does not count. The short time after the gap does
// not count either, because the process still reads what has piled up. A process that is late again
// and again still gets on, by a step for each time.
//
// A value without I/O. `now` never goes back. It starts as the outside time and falls behind that.
#pragma once

#include <optional>

#include "src/base/time.h"

namespace byteps::protocol {

class ListeningClock {
 public:
  // Asks to be called once per `step` while its owner waits for something. A call is late if it
  // comes more than two steps after that. The next four steps do not count then, because its owner
  // reads.
  ListeningClock(Time outside, Duration step) : step_(step), outside_(outside), now_(outside) {}

  // Begins a call of the owner.
  void Advance(Time outside);
  Time now() const { return now_; }

  // Ends the call. `due`: the time at which the thing is due that the owner waits for.
  void WaitFor(std::optional<Time> due);
  // The outside time at which to call the owner again; none: the owner waits for nothing.
  std::optional<Time> NextCall() const { return next_call_; }

 private:
  const Duration step_;
  Time outside_;
  Time now_;
  Duration to_read_{};  // time that will not count
  std::optional<Time> next_call_;
};

}  // namespace byteps::protocol
