// A worker in a job with servers: one thread with one loop for the coordinator, the front and the
// first lane. Further lanes have threads of their own (lane_group.h).
//
// The coordinator may go away and come back without an effect on operations. Servers may go, too:
// the worker then repeats unanswered requests to the new owners.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/log.h"
#include "src/protocol/control/views/membership.h"
#include "src/protocol/worker/front/leaving.h"
#include "src/protocol/worker/worker_options.h"
#include "src/runtime/control_link.h"
#include "src/runtime/ticker.h"
#include "src/runtime/worker/engine.h"
#include "src/runtime/worker/front_loop.h"
#include "src/runtime/worker/lane_group.h"
#include "src/runtime/worker/standing.h"

namespace byteps::runtime {

class WorkerEngine final : public Engine {
 public:
  WorkerEngine(std::shared_ptr<transport::Transport> transport, const WorkerEngineOptions& options,
               Log& log);
  // Leaves, unless Leave was called before. The connection to the coordinator ends here, and tells
  // the job that this process will not join again.
  ~WorkerEngine() override;

  // Blocks until the engine is ready, has failed or was told to stop (WorkerEngineOptions::go_on).
  // Throws as std::thread does.
  Result<Standing> Start();

  void Submit(protocol::Operation operation, Done done) override {
    front_loop_.Submit(std::move(operation), std::move(done));
  }
  void Declare(const std::string& name) override { front_loop_.Declare(name); }
  void SetStuck(const std::string& name) override { front_loop_.SetStuck(name); }
  void SetDeviceWaits(protocol::DeviceWaits waits) override {
    front_loop_.SetDeviceWaits(std::move(waits));
  }
  Status AddProcessSet(uint32_t number, const std::vector<uint32_t>& ranks) override {
    return front_loop_.AddProcessSet(number, ranks);
  }
  Status RemoveProcessSet(uint32_t number) override { return front_loop_.RemoveProcessSet(number); }
  std::vector<uint32_t> Members() override { return milestones_.Members(); }
  plan::SumReport Sums() override { return milestones_.Sums(); }
  void GiveUp(const std::string& why) override;
  bool Leave() override;
  const std::shared_ptr<WaitMeter>& waits() const { return front_loop_.waits(); }

 private:
  enum class Phase : uint8_t { kStarting, kReady, kOver };

  void Finish(const Status& how) noexcept;
  Status WhyOver(const Status& how) noexcept;

  // The methods below are called on the loop's thread.
  void BreakOff();
  void OnControlReady();
  void OnControl(const wire::Message& message);
  void OnView(const wire::View& view);
  void ReadyIfComplete();
  void OnEvent();
  void Suspect(const wire::Suspect& suspect);
  void OnLost(const Status& why);
  std::unique_ptr<WorkerLanes> MakeLanes();
  Status Evicted(const std::string& source) const;
  void End(const Status& why);
  void BeginToLeave();
  void CutShort();
  void EndLeaving();
  void SayLeave();
  void LeaveIsOut(const wire::Leave& leave);
  void Left();
  void StopFront(const Status& why);
  void NotifyIfLeft();
  void SendControl(const wire::Message& message);
  FrontLoop::Events FrontEvents();
  protocol::Front& front() { return front_loop_.front(); }

  const std::shared_ptr<transport::Transport> transport_;  // shared with an early join, at first
  const WorkerEngineOptions options_;
  Log& log_;
  const std::unique_ptr<transport::Loop> loop_;

  Milestones milestones_;

  // Owned by the loop's thread.
  ControlLink control_;
  protocol::Membership membership_;
  std::unique_ptr<WorkerLanes> lanes_;
  FrontLoop front_loop_;
  Ticker ticker_;
  Phase phase_ = Phase::kStarting;
  protocol::Leaving leaving_;
  bool leave_is_out_ = false;  // the leave is sent, or waits for the coordinator
  bool lanes_let_go_ = true;   // false while lanes have still to ignore answers
  bool cut_short_ = false;
  bool front_stopped_ = false;
  bool gone_ = false;                     // all open operations end now
  std::optional<wire::Suspect> gave_up_;  // sent again to a coordinator that was away
  std::unique_ptr<transport::Loop::Timer> settle_limit_;

  std::thread thread_;
};

}  // namespace byteps::runtime
