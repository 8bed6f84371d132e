// The front of one rank under a random schedule (schedule_for_test.h).
#pragma once

#include <functional>
#include <utility>

#include "src/machine/schedule_ops_for_test.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/worker/front/front.h"
#include "src/protocol/worker/front/front_driver.h"

namespace byteps::machine {

class ScheduledFront final : public protocol::FrontDriver {
 public:
  struct Events {
    std::function<void(const wire::Message&)> to_coordinator;
    std::function<void(protocol::LaneMail)> to_lane;
    std::function<void(protocol::OperationId, protocol::Outcome)> complete;
    std::function<void()> settled = nullptr;
  };
  // In every other schedule a rank lets go of each tensor after a few operations on others.
  ScheduledFront(uint64_t seed, Events events)
      : events_(std::move(events)), front(OptionsOf(seed), arithmetic_, *this) {}

  void SendControl(const wire::Message& message) override { events_.to_coordinator(message); }
  void ToLane(uint32_t, protocol::LaneMail mail) override { events_.to_lane(std::move(mail)); }
  void Complete(protocol::OperationId id, protocol::Outcome outcome) override {
    events_.complete(id, std::move(outcome));
  }
  void OnSettled() override { events_.settled(); }

  // Takes what the coordinator says of names.
  void OnMessage(const wire::Message& message) {
    if (const auto* declared = std::get_if<wire::Declared>(&message)) {
      front.OnDeclared(*declared);
    } else if (const auto* failed = std::get_if<wire::DeclareFailed>(&message)) {
      front.OnDeclareFailed(*failed);
    } else if (const auto* forgotten = std::get_if<wire::Forgotten>(&message)) {
      let_go_ += forgotten->tensors.size();
      front.OnForgotten(*forgotten);
    }
  }
  void GiveUp(protocol::OperationId id) {
    front.Abort(id, {"a rank has waited too long", "", false});
  }

  // Returns the number of tensors of which the rank has heard that all ranks have let go of them.
  uint64_t let_go() const { return let_go_; }

 private:
  static protocol::FrontOptions OptionsOf(uint64_t seed) {
    protocol::FrontOptions options;
    options.piece_bytes = kScheduledBytes;
    if (seed % 2 == 0) options.idle = protocol::IdleTensors(1, 2);
    return options;
  }

  const Events events_;
  uint64_t let_go_ = 0;
  protocol::KernelArithmetic arithmetic_;

 public:
  protocol::Front front;
};

}  // namespace byteps::machine
