#include "src/runtime/worker/worker_engine.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "src/runtime/loop_thread.h"

namespace byteps::runtime {
namespace {

// kSettleLimit: the time that a leaving worker waits for the other workers to have what it holds.
// kInForceLimit: the time that it then waits for its leave to be in force, if operations borrow
// memory of its user. The sum is less than leave_limit.
constexpr Duration kSettleLimit = seconds(2);
constexpr Duration kInForceLimit = milliseconds(1500);
// The interval at which a start asks whether to go on.
constexpr Duration kAskEvery = milliseconds(50);

Status BrokenOff() {
  return {StatusCode::kShutdown, "joining the job was broken off; this process is not in it"};
}

protocol::FrontOptions FrontOptionsFor(const protocol::WorkerOptions& worker,
                                       const WorkerLanes& lanes) {
  protocol::FrontOptions options = protocol::FrontOptionsOf(worker);
  options.lanes = lanes.front_lanes();
  return options;
}

}  // namespace

WorkerEngine::WorkerEngine(std::shared_ptr<transport::Transport> transport,
                           const WorkerEngineOptions& options, Log& log)
    : transport_(std::move(transport)),
      options_(options),
      log_(log),
      loop_(transport_->MakeLoop()),
      control_(*loop_, options.control, log,
               {[this] { OnControlReady(); },
                [this](const wire::Message& message) { OnControl(message); },
                [this](const Status& why) { End(why); }, [this] { return front_loop_.Tell(); }}),
      membership_(options.join),
      lanes_(MakeLanes()),
      front_loop_(*loop_, FrontOptionsFor(options.protocol, *lanes_), options.operation_limit,
                  FrontEvents()),
      ticker_(
          *loop_, [this] { return front().NextTick(); },
          [this](Time now) {
            front().OnTick(now);
            lanes_->Deliver();
          }) {}

std::unique_ptr<WorkerLanes> WorkerEngine::MakeLanes() {
  WorkerLanes::Events events;
  events.to_front = [this](protocol::FrontMail mail) { front().OnMail(std::move(mail)); };
  events.on_event = [this] { OnEvent(); };
  events.on_links = [this] { ReadyIfComplete(); };
  events.on_suspect = [this](const wire::Suspect& suspect) { Suspect(suspect); };
  events.on_evicted = [this](const std::string& why) { End(Evicted(why)); };
  events.on_lost = [this](const Status& why) { OnLost(why); };
  WorkerLanesParts parts{*transport_,
                         *loop_,
                         options_.protocol,
                         options_.shards,
                         options_.control.identity,
                         log_,
                         std::move(events),
                         options_.on_lane_thread};
  if (options_.make_lanes) return options_.make_lanes(std::move(parts));
  return std::make_unique<LaneGroup>(std::move(parts));
}

FrontLoop::Events WorkerEngine::FrontEvents() {
  FrontLoop::Events events;
  events.to_lane = [this](uint32_t lane, protocol::LaneMail mail) {
    lanes_->Send(lane, std::move(mail));
  };
  events.to_control = [this](const wire::Message& message) { SendControl(message); };
  events.after = [this] { lanes_->Deliver(); };
  events.settled = [this] { SayLeave(); };
  events.may_abort = [this] { return phase_ == Phase::kReady; };
  return events;
}

WorkerEngine::~WorkerEngine() {
  if (thread_.joinable()) {
    Leave();
    loop_->Stop();
    thread_.join();
  } else {
    Finish(Status::Ok());
  }
}

Result<Standing> WorkerEngine::Start() {
  control_.Start();
  lanes_->Start();
  thread_ = std::thread([this] {
    if (options_.on_lane_thread != nullptr) options_.on_lane_thread(0);
    Finish(RunLoop(*loop_));
  });
  auto now = std::chrono::steady_clock::now();
  const auto deadline = now + options_.start_limit;
  for (; now < deadline; now = std::chrono::steady_clock::now()) {
    bool asks = options_.go_on != nullptr;
    auto started = milestones_.WaitForStart(asks ? std::min(now + kAskEvery, deadline) : deadline);
    if (started.has_value()) return *std::move(started);
    if (!asks || options_.go_on()) continue;
    loop_->Post([this] { BreakOff(); });
    return BrokenOff();
  }
  return Status(StatusCode::kDeadlineExceeded,
                "the job did not start in time; raise BYTEPS_START_TIMEOUT or look at the "
                "scheduler's output");
}

// The loop does not run any more: it was stopped, or something was thrown on its thread or on a
// lane's thread. The state machines may stand in the middle of a step, so nobody asks them. The
// open operations end when nothing can touch their memory.
void WorkerEngine::Finish(const Status& how) noexcept {
  control_.Close();
  lanes_->End();
  const Status why = WhyOver(how);
  front_loop_.EndAll(why);
  milestones_.SetStarted(why);
  milestones_.SetLeft();
}

Status WorkerEngine::WhyOver(const Status& how) noexcept {
  Status cause = how.ok() ? lanes_->failure() : how;
  if (cause.ok()) return front_loop_.shut_down();
  try {
    cause = Status(cause.code(),
                   "the network thread of this worker has failed, and with it its "
                   "part in the job: " +
                       cause.message());
    log_.Error("{}", cause.message());
  } catch (...) {  // no memory; the cause alone says enough
  }
  return cause;
}

// If the worker is in no view yet, its closed connection frees its place at once. If it is in a
// view, it leaves in order, like a worker that has started; otherwise the other members would lose
// it.
void WorkerEngine::BreakOff() {
  if (phase_ != Phase::kStarting) return;
  if (membership_.view().epoch == 0) return End(BrokenOff());
  phase_ = Phase::kReady;
  log_.WaitIsOver();
}

// The coordinator was restarted, or only lost the connection. Tells the coordinator all that it may
// lack.
void WorkerEngine::OnControlReady() {
  wire::Message greeting = membership_.Greeting();
  if (std::holds_alternative<wire::Report>(greeting)) {
    for (const wire::Known& known : front().Known()) control_.Send(known);
  }
  control_.Send(greeting);
  if (phase_ == Phase::kStarting && membership_.view().epoch == 0) return;
  front().AskAgain();
  lanes_->OnCoordinatorBack();
  if (gave_up_.has_value()) control_.Send(*gave_up_);
  if (leave_is_out_) control_.Send(*leaving_.SayAgain());
}

void WorkerEngine::OnControl(const wire::Message& message) {
  protocol::Membership::Step step = membership_.OnMessage(message);
  if (step.view.has_value()) OnView(*step.view);
  if (step.answer.has_value()) control_.Send(*step.answer);
  if (const auto* waiting = std::get_if<wire::Waiting>(&message)) {
    log_.Waiting(waiting->text);  // the coordinator decides which members it tells
  }
  if (const auto* refused = std::get_if<wire::Refused>(&message)) {
    End({refused->code, refused->text});
  }
  if (const auto* over = std::get_if<wire::JobOver>(&message)) {
    Status why(over->code, over->text);
    End(why.ok() ? Status(StatusCode::kShutdown, "the job is over") : why);
  }
  front_loop_.OnControl(message);
  if (std::holds_alternative<wire::Leave>(message) && leave_is_out_) Left();
  lanes_->Deliver();
}

// `source`: the process that reported the eviction.
Status WorkerEngine::Evicted(const std::string& source) const {
  if (gave_up_.has_value()) {
    return {StatusCode::kEvicted, "this worker gave up, and the others went on without it (" +
                                      source + "): " + gave_up_->text};
  }
  return {StatusCode::kEvicted,
          "this worker was declared lost and the others went on without it (" + source +
              "): it was silent for too long, because it stood still, was frozen or was cut off "
              "from the network. What it computed since does not count; started again it is let in "
              "when the others begin anew"};
}

void WorkerEngine::OnView(const wire::View& view) {
  if (phase_ == Phase::kOver) return;
  if (membership_.IsEvicted()) {
    if (leave_is_out_) return Left();
    return End(Evicted("view " + std::to_string(view.epoch)));
  }
  uint64_t own = options_.join.incarnation;
  auto self = std::find_if(view.workers.begin(), view.workers.end(),
                           [&](const auto& worker) { return worker.incarnation == own; });
  if (self == view.workers.end() || front_stopped_) return;
  log_.Rename("worker " + std::to_string(self->rank));
  milestones_.SetView(view);
  front_loop_.OnView(view, self->slot, self->rank);
  lanes_->Deliver();
  ReadyIfComplete();
}

void WorkerEngine::ReadyIfComplete() {
  const wire::View& view = membership_.view();
  bool served = std::any_of(view.servers.begin(), view.servers.end(),
                            [](const auto& server) { return server.alive; });
  if (phase_ != Phase::kStarting || !lanes_->AllUp(view.epoch)) return;
  if (view.epoch == 0 || (!served && !view.servers.empty())) return;
  phase_ = Phase::kReady;
  milestones_.SetStarted(StandingOf(view, options_.join.incarnation));
}

// The front has got mail.
void WorkerEngine::OnEvent() {
  ticker_.Arm();
  NotifyIfLeft();
}

// Tells the coordinator the reason. The coordinator gets the same reason, whichever process of the
// machine it loses first. A worker that leaves says so instead: else it would be taken for lost,
// because the first worker of its machine has left earlier.
void WorkerEngine::OnLost(const Status& why) {
  if (phase_ == Phase::kReady && !leaving_.wants()) {
    control_.Send(wire::Suspect{Role::kWorker, 0, 0, wire::Suspicion::kGaveUp, why.message()});
  } else if (phase_ == Phase::kReady && !leave_is_out_) {
    leaving_.Say(front().open_operations());
    control_.Send(*leaving_.SayAgain());
  }
  End(why);
}

void WorkerEngine::Suspect(const wire::Suspect& suspect) {
  if (phase_ != Phase::kOver) control_.Send(suspect);
}

// Closes the lanes before the operations end, because nothing may write to users' memory
// afterwards.
void WorkerEngine::StopFront(const Status& why) {
  front_stopped_ = true;
  lanes_->Close(why);
  front().Stop(why);
  lanes_->Deliver();
}

// No operation is open, now and later.
void WorkerEngine::NotifyIfLeft() {
  if (gone_ && front().open_operations() == 0) milestones_.SetLeft();
}

void WorkerEngine::End(const Status& why) {
  if (phase_ == Phase::kOver) return;
  bool leaves = leaving_.wants();
  // The errors of the operations say it to the user.
  if (phase_ == Phase::kReady && !leaves) log_.Info("the job is over: {}", why.message());
  phase_ = Phase::kOver;
  settle_limit_.reset();
  control_.Close();
  gone_ = gone_ || leaves;
  StopFront(why);
  milestones_.SetStarted(why);
}

void WorkerEngine::GiveUp(const std::string& why) {
  loop_->Post([this, why] {
    if (phase_ != Phase::kReady || leaving_.wants()) return;
    SendControl(wire::Suspect{Role::kWorker, 0, 0, wire::Suspicion::kGaveUp, why});
  });
}

bool WorkerEngine::Leave() {
  auto until = [](Duration limit) { return std::chrono::steady_clock::now() + limit; };
  if (front_loop_.Refuse()) PostOrStop(*loop_, [this] { BeginToLeave(); });
  if (milestones_.WaitUntilLeft(until(options_.leave_limit))) return true;
  PostOrStop(*loop_, [this] { CutShort(); });
  if (milestones_.WaitUntilLeft(until(options_.end_limit))) return true;
  return milestones_.AwaitsCoordinator() &&
         milestones_.WaitUntilLeft(until(options_.control.patience));
}

// REQUIRES: Start has succeeded or failed.
void WorkerEngine::BeginToLeave() {
  front_loop_.Take();
  if (phase_ != Phase::kReady) {
    phase_ = Phase::kOver;
    return Left();
  }
  if (!leaving_.Begin()) return;
  front_loop_.Leave();
  settle_limit_ = loop_->After(kSettleLimit, [this] { SayLeave(); });
  front().Settle();
  lanes_->Deliver();
}

// Leaving took too long. If lanes have still to let go, waits for them: if this worker's
// connections closed before its leave is sent, the others would take the worker for lost.
void WorkerEngine::CutShort() {
  cut_short_ = true;
  SayLeave();
  if (lanes_let_go_) EndLeaving();
}

// Ends the operations that borrow memory of the user. If there are none, but the coordinator is
// away, waits for the coordinator as in any other phase: a coordinator that has not heard of the
// leave would refuse the next session of this process. All else goes on for as long as this engine
// lives.
void WorkerEngine::EndLeaving() {
  if (front().open_operations() > 0) Left();
  if (leave_is_out_ && !front_stopped_ && !control_.is_connected()) {
    return milestones_.SetAwaitsCoordinator();
  }
  gone_ = true;
  NotifyIfLeft();
}

// Keeps the connections to the shards until the leave is in force, so that nobody takes the leave
// for a loss. If operations are open, the lanes take no more answers: this worker could not pass on
// an answer that it would then hold and others lack.
void WorkerEngine::SayLeave() {
  auto leave = leaving_.Say(front().open_operations());
  if (!leave.has_value()) return;
  settle_limit_.reset();
  if (leave->clean) return LeaveIsOut(*leave);
  lanes_let_go_ = false;
  lanes_->IgnoreAnswers([this, leave] {
    lanes_let_go_ = true;
    LeaveIsOut(*leave);
    if (cut_short_) EndLeaving();
  });
}

// The job may have ended while the lanes let go.
void WorkerEngine::LeaveIsOut(const wire::Leave& leave) {
  if (front_stopped_) return;
  leave_is_out_ = true;
  control_.Send(leave);
  if (!leave.clean) settle_limit_ = loop_->After(kInForceLimit, [this] { Left(); });
}

void WorkerEngine::Left() {
  settle_limit_.reset();
  gone_ = true;
  StopFront(front_loop_.shut_down());
  NotifyIfLeft();
}

void WorkerEngine::SendControl(const wire::Message& message) {
  if (const auto* suspect = std::get_if<wire::Suspect>(&message)) gave_up_ = *suspect;
  control_.Send(message);
}

Result<StartedEngine> StartWorkerEngine(std::shared_ptr<transport::Transport> transport,
                                        const WorkerEngineOptions& options, Log& log) {
  try {
    auto engine = std::make_unique<WorkerEngine>(std::move(transport), options, log);
    Result<Standing> standing = engine->Start();
    if (!standing.ok()) return standing.status();
    StartedEngine started;
    started.waits = engine->waits();
    started.engine = std::move(engine);
    started.standing = standing.value();
    return started;
  } catch (const std::system_error& thrown) {
    return Status(StatusCode::kExhausted,
                  std::string("this system has no thread or file descriptor left for a worker (") +
                      thrown.what() + "); raise its limits (ulimit -u, ulimit -n)");
  }
}

}  // namespace byteps::runtime
