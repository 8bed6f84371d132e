// Calls a state machine's OnTick at the time of its NextTick; sleeps when the state machine has
// nothing to do. Lives on one loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "src/base/time.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

class Ticker {
 public:
  Ticker(transport::Loop& loop, std::function<std::optional<Time>()> next,
         std::function<void(Time)> tick);

  // Must be called after every event that reached the state machine. Cheap: one look follows many
  // events that come together.
  void Arm();

 private:
  void Look();
  void OnTimer();

  transport::Loop& loop_;
  std::function<std::optional<Time>()> next_;
  std::function<void(Time)> tick_;
  bool looks_soon_ = false;
  std::optional<Time> armed_;
  std::unique_ptr<transport::Loop::Timer> timer_;
};

}  // namespace byteps::runtime
