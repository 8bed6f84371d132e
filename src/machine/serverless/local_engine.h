// A worker in a job on one machine without servers, whose ranks sum in the window. Each rank has
// one thread with one loop (room/word_loop.h), which runs the front and the lane, and at rank 0 the
// carrier.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/log.h"
#include "src/local/life_watch.h"
#include "src/local/meeting.h"
#include "src/machine/room/device_group.h"
#include "src/machine/room/device_mover.h"
#include "src/machine/room/life_signs.h"
#include "src/machine/room/shared_room.h"
#include "src/machine/room/word_channel.h"
#include "src/machine/room/word_loop.h"
#include "src/machine/serverless/local_carrier.h"
#include "src/machine/serverless/local_lane.h"
#include "src/machine/serverless/local_words.h"
#include "src/runtime/seeing/status_page.h"
#include "src/runtime/seeing/status_port.h"
#include "src/runtime/ticker.h"
#include "src/runtime/worker/engine.h"
#include "src/runtime/worker/front_loop.h"
#include "src/runtime/worker/standing.h"

namespace byteps::machine {

struct LocalEngineOptions {
  std::string job;
  std::string secret;
  // The address "host:port" that the job's processes were given; nobody listens there.
  std::string root;
  std::string version;
  uint32_t rank = 0;
  uint32_t size = 2;  // at most local::kLocalRanksMax
  Duration start_limit = seconds(120);
  Duration operation_limit{};  // runtime::WorkerEngineOptions::operation_limit
  // Like the options of runtime::WorkerEngineOptions with the same names.
  Duration leave_limit = seconds(4);
  Duration end_limit = seconds(10);
  Duration alive_every = milliseconds(200);
  Duration silence_max = seconds(5);
  // `overdue_after`: the time between two looks for operations that have not ended. `judge_after`:
  // the time from the word of a rank that is stuck to the search for a circle.
  Duration overdue_after = milliseconds(500);
  Duration judge_after = milliseconds(500);
  // CoordinatorOptions::stall_after; the process of rank 0 reports.
  Duration stall_after = seconds(60);
  runtime::StatusPlaces status;  // where rank 0 shows the job's state
  std::function<bool()> go_on;   // runtime::WorkerEngineOptions::go_on
  std::string node;              // the host's name, for people
  bool same_bits = false;        // as in wire::View, and equal on all ranks
  uint32_t sum_group = 1;        // the same
  GroupTools groups{};           // where groups of devices come from
  // What the user wants of them, for people; equal on all ranks. Empty: nothing.
  std::string groups_wish;
};

// Meets the other ranks of the job. Blocks until all ranks are there; if some do not come, the
// error names them.
Result<runtime::StartedEngine> StartLocalEngine(const LocalEngineOptions& options, Log& log);

class LocalEngine final : public runtime::Engine {
 public:
  // `meeting`: the memory that the rank shares with the others. Throws as std::thread does.
  LocalEngine(const LocalEngineOptions& options, local::Meeting meeting, Log& log);
  // Leaves, unless Leave was called before.
  ~LocalEngine() override;

  // Starts the engine. REQUIRES: called once, before anything else.
  Status Start();

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
  std::vector<uint32_t> Members() override;
  plan::SumReport Sums() override { return sums_; }
  void GiveUp(const std::string& why) override;
  void Help(const std::function<bool()>& over, Time deadline) override {
    loop_.Help(over, deadline);
  }
  bool Leave() override;
  const std::shared_ptr<runtime::WaitMeter>& waits() const { return front_loop_.waits(); }
  // Returns StartedEngine::prepare_device.
  runtime::PrepareDevice PinsWindowOfMachine() const;

 private:
  // The methods below are called on the loop's thread.
  bool Step();
  bool ShortStep();
  bool Hear();
  // Takes a word of the carrier.
  void On(const Failed& word) { lane_.OnFailed(word, loop_.Now()); }
  void On(const Combined& word);
  void On(const MayLeave&) { may_leave_ = true; }
  void On(const CarrierLeaves&);
  void On(const JobOver& word) { EndAtOnce(word.status); }
  void On(const SumsSo& word) { lane_.Meet(word); }
  void On(const UnitLaunch& word);
  void On(const GroupOver& word) { group_.End(word.why); }
  void On(const wire::Message& message) { front_loop_.OnControl(message); }
  void DeliverToFront();
  std::optional<Time> NextTick();
  void OnTick(Time now);
  void Beat();
  void TakeWhatIsThere();
  void OnLoss();
  void Fail(const Status& why);
  void EndAtOnce(const Status& why);
  void End(const Status& why);
  LocalCarrierOptions CarrierOptions();
  LocalLane::Events LaneEvents();
  void BeginToLeave();
  void LeaveIfDone();
  void CutShort();
  void BeginToStop();
  void Finish(const Status& how) noexcept;
  Status ShowStatus();
  runtime::StatusPage Page();
  void Report(const std::string& text);
  runtime::FrontLoop::Events FrontEvents();
  protocol::Front& front() { return front_loop_.front(); }
  bool IsCarrier() const { return carrier_ != nullptr; }

  void SendControl(const wire::Message& message);

  const LocalEngineOptions options_;
  Log& log_;
  local::Meeting meeting_;
  const std::shared_ptr<const local::SharedMemory> memory_;  // shared with copies of devices
  const SharedRoom room_;
  local::Heaps heaps_;
  local::Window window_;
  WordLoop loop_;
  runtime::Milestones milestones_;
  const plan::SumReport sums_;

  // Owned by the loop's thread.
  runtime::FrontLoop front_loop_;
  DeviceMover mover_;
  DeviceGroup group_;
  LocalLane lane_;
  std::unique_ptr<LocalCarrier> carrier_;
  WordChannel<LocalWords> channel_;
  std::deque<protocol::FrontMail> to_front_;
  LifeSigns life_signs_;
  runtime::Ticker ticker_;
  std::unique_ptr<transport::Loop::Timer> beat_;
  bool over_ = false;  // ended in an error, or left
  bool leaves_ = false;
  bool may_leave_ = false;  // the carrier gives this rank no block any more
  bool closed_ = false;     // the carrier's part has said that it leaves
  bool stops_ = false;      // the loop stops as soon as the group has ended
  Time next_account_{};
  std::deque<runtime::SaidLine> said_;
  const Time begun_;

  std::unique_ptr<local::LifeWatch> watch_;
  std::thread thread_;
  std::unique_ptr<runtime::StatusPort> status_port_;
};

}  // namespace byteps::machine
