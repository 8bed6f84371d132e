// FrontLoop: the part of an engine that is the same with and without servers. It takes the
// operations of the engine's users in their order, gives them to the front, ends those that take
// too long, hands the coordinator's words to the front, and completes each operation exactly once.
//
// It knows no links, no words of a machine and no window: the engine carries mail and messages.
// Submit, Declare, SetStuck, SetDeviceWaits, AddProcessSet, RemoveProcessSet and Refuse may be
// called from any thread, the other methods on the loop's thread, or on the thread that owns the
// engine while the loop does not run.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/worker/front/front.h"
#include "src/runtime/worker/accountant.h"
#include "src/runtime/worker/engine.h"
#include "src/runtime/worker/open_operations.h"
#include "src/runtime/worker/wait_meter.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

class FrontLoop final : private protocol::FrontDriver {
 public:
  // The events of the engine, on the loop's thread. to_lane and to_control come from inside the
  // front, and do not call it.
  struct Events {
    std::function<void(uint32_t lane, protocol::LaneMail mail)> to_lane;
    std::function<void(const wire::Message&)> to_control;
    // The front was given something outside of the engine's own calls: deliver what it has said.
    std::function<void()> after;
    // See Front::Settle. Null: the engine never calls it.
    std::function<void()> settled;
    // Returns whether the front may end operations that are late now.
    std::function<bool()> may_abort;
    // Runs `submit` on the calling thread of a user, who may do the work of a loop that sleeps.
    // Null: the loop's own thread does the work.
    std::function<void(const std::function<void()>& submit)> offer;
    // Returns whether the thread of a user does the loop's work just now. The ends of operations
    // then wait for TellEnds, because no `done` may run inside a user's Submit. Null: never.
    std::function<bool()> is_lent;
  };

  // `loop` outlives the FrontLoop. `operation_limit`: as OpenOperations takes it.
  FrontLoop(transport::Loop& loop, const protocol::FrontOptions& options, Duration operation_limit,
            Events events);

  // These do what the methods of Engine do.
  void Submit(protocol::Operation operation, Engine::Done done);
  void Declare(const std::string& name);
  void SetStuck(const std::string& name);
  void SetDeviceWaits(protocol::DeviceWaits waits);
  Status AddProcessSet(uint32_t number, const std::vector<uint32_t>& ranks);
  Status RemoveProcessSet(uint32_t number);
  // Ends what is submitted from now on at once, with kShutdown. False: an earlier call did.
  bool Refuse() { return operations_.Refuse(shut_down_); }

  // The view is in force; the worker has this slot and rank in it.
  void OnView(const wire::View& view, Slot slot, uint32_t rank);
  // Hands what the front and the accounts need of a message to them.
  void OnControl(const wire::Message& message);
  // Returns what this worker tells of itself.
  wire::Alive Tell() { return accountant_.Tell(waits_->Waited(loop_.Now())); }
  // Gives all that was submitted to the front.
  void Take();
  // The worker leaves: errors become kShutdown from now on, because what its own leaving did to an
  // operation is no fault of a peer.
  void Leave() { leaves_ = true; }
  // Calls `done` of the operations that ended while the loop was lent. REQUIRES: it is not.
  void TellEnds();
  bool HasEnds() const { return !ends_.empty(); }
  // The loop does not run any more: all that is open ends like this, now and later. The front is
  // not asked, because after an error it may stand in the middle of a step. Takes no memory.
  void EndAll(const Status& why) noexcept { operations_.EndAll(why); }

  protocol::Front& front() { return front_; }
  const std::shared_ptr<WaitMeter>& waits() const { return waits_; }
  // The end of operations that a worker's own leaving ends.
  const Status& shut_down() const { return shut_down_; }

 private:
  Status OnLoop(std::function<Status()> work);
  void AbortLateOnes(const std::vector<protocol::OperationId>& late);

  void SendControl(const wire::Message& message) override { events_.to_control(message); }
  void ToLane(uint32_t lane, protocol::LaneMail mail) override {
    events_.to_lane(lane, std::move(mail));
  }
  void OnSettled() override { events_.settled(); }
  void Complete(protocol::OperationId id, protocol::Outcome outcome) override;

  transport::Loop& loop_;
  const Events events_;
  const Status shut_down_;  // made before there may be no memory for it
  OpenOperations operations_;
  const std::shared_ptr<WaitMeter> waits_ = std::make_shared<WaitMeter>();

  // Owned by the loop's thread.
  protocol::KernelArithmetic arithmetic_;
  protocol::Front front_;
  Accountant accountant_;
  uint32_t rank_ = 0;
  bool leaves_ = false;
  std::deque<std::pair<protocol::OperationId, protocol::Outcome>> ends_;
};

}  // namespace byteps::runtime
