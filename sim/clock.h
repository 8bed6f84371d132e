// The time of one process, and its timers.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "sim/network.h"

namespace byteps::sim {

// The clock of one process. It has its own start, and may jump.
class NodeClock {
 public:
  explicit NodeClock(const Network& network) : network_(network) {}

  Time now() const { return network_.now() + ahead_; }
  Time InNetwork(Time local) const { return local - ahead_; }
  void Step(Duration by) { ahead_ += by; }

 private:
  const Network& network_;
  Duration ahead_{};
};

// Runs `tick` at the time that the state machine's NextTick returns, unless the process is frozen
// or gone.
class Ticker {
 public:
  Ticker(Network& network, const NodeClock& clock, const Endpoint* owner,
         std::function<std::optional<Time>()> next, std::function<void(Time)> tick)
      : network_(network),
        clock_(clock),
        owner_(owner),
        next_(std::move(next)),
        tick_(std::move(tick)) {}

  // Sets the next tick. Must be called after every event, and after the clock has jumped.
  void Arm();
  void Stop() { stopped_ = true; }

 private:
  void Ring(Time when);

  Network& network_;
  const NodeClock& clock_;
  const Endpoint* owner_;
  std::function<std::optional<Time>()> next_;
  std::function<void(Time)> tick_;
  std::optional<Time> armed_;  // in the network's time
  bool stopped_ = false;
};

}  // namespace byteps::sim
