// Calls a state machine's OnTick when its NextTick says so; sleeps when it has nothing to do.
// Lives on one loop.
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

  // To be called after every event that reached the machine. Cheap: many events that come together
  // are followed by one look.
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
