// Lets threads that wait for operations help their engine meanwhile (Engine::Help), until it goes,
// and measures how long somebody waits.
//
// Thread-safe. It outlives the engine: a thread that comes later waits without helping.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "src/base/time.h"
#include "src/runtime/worker/engine.h"
#include "src/runtime/worker/wait_meter.h"
#include "src/session/call_gate.h"

namespace byteps::session {

class Helpers {
 public:
  Helpers(runtime::Engine& engine, std::shared_ptr<runtime::WaitMeter> waits)
      : waits_(std::move(waits)), engine_(engine) {}

  // Calls Engine::Help, if the engine exists.
  void Help(const std::function<bool()>& over, Time deadline) {
    if (!gate_.Enter()) return;
    engine_.Help(over, deadline);
    gate_.Leave();
  }
  // Blocks until no thread is inside the engine any more. REQUIRES: called once, after
  // Engine::Leave.
  void End() { gate_.Shut(); }

  const std::shared_ptr<runtime::WaitMeter>& waits() const { return waits_; }

 private:
  const std::shared_ptr<runtime::WaitMeter> waits_;
  CallGate gate_;
  runtime::Engine& engine_;
};

}  // namespace byteps::session
