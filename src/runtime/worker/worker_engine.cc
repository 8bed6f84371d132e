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
// The limit for a call on the loop, which never blocks but may have ended.
constexpr Duration kLoopLimit = seconds(10);
// The interval at which a start asks whether to go on.
constexpr Duration kAskEvery = milliseconds(50);

Status ShutDown() { return {StatusCode::kShutdown, "the session was shut down"}; }

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

WorkerEngine::WorkerEngine(std::unique_ptr<transport::Transport> transport,
                           const WorkerEngineOptions& options, Log& log)
    : transport_(std::move(transport)),
      options_(options),
      log_(log),
      shut_down_(ShutDown()),
      loop_(transport_->MakeLoop()),
      operations_(
          *loop_, options.operation_limit,
          {[this] { TakeSubmissions(); },
           [this](const std::vector<protocol::OperationId>& late) { AbortLateOnes(late); }}),
      control_(*loop_, options.control, log,
               {[this] { OnControlReady(); },
                [this](const wire::Message& message) { OnControl(message); },
                [this](const Status& why) { End(why); }, [this] { return accountant_.Tell(); }}),
      membership_(options.join),
      lanes_(MakeLanes()),
      front_(FrontOptionsFor(options.protocol, *lanes_), arithmetic_, *this),
      accountant_(front_.uses(), operations_),
      ticker_(
          *loop_, [this] { return front_.NextTick(); },
          [this](Time now) {
            front_.OnTick(now);
            lanes_->Deliver();
          }) {}

std::unique_ptr<WorkerLanes> WorkerEngine::MakeLanes() {
  WorkerLanes::Events events;
  events.to_front = [this](protocol::FrontMail mail) { front_.OnMail(std::move(mail)); };
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
  operations_.EndAll(why);
  milestones_.SetStarted(why);
  milestones_.SetLeft();
}

Status WorkerEngine::WhyOver(const Status& how) noexcept {
  Status cause = how.ok() ? lanes_->failure() : how;
  if (cause.ok()) return shut_down_;
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
    for (const wire::Known& known : front_.Known()) control_.Send(known);
  }
  control_.Send(greeting);
  if (phase_ == Phase::kStarting && membership_.view().epoch == 0) return;
  front_.AskAgain();
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
  if (const auto* declared = std::get_if<wire::Declared>(&message)) front_.OnDeclared(*declared);
  if (const auto* failed = std::get_if<wire::DeclareFailed>(&message)) {
    front_.OnDeclareFailed(*failed);
  }
  if (const auto* forgotten = std::get_if<wire::Forgotten>(&message)) {
    front_.OnForgotten(*forgotten);
  }
  if (const auto* question = std::get_if<wire::Unbegun>(&message)) front_.OnUnbegun(*question);
  if (const auto* alive = std::get_if<wire::Alive>(&message)) accountant_.Hear(*alive);
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
  rank_ = self->rank;
  log_.Rename("worker " + std::to_string(rank_));
  milestones_.SetMembers(MembersOf(view));
  front_.OnView(view, self->slot, rank_);
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
// machine it loses first.
void WorkerEngine::OnLost(const Status& why) {
  if (phase_ == Phase::kReady && !leaving_.wants()) {
    control_.Send(wire::Suspect{Role::kWorker, 0, 0, wire::Suspicion::kGaveUp, why.message()});
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
  front_.Stop(why);
  lanes_->Deliver();
}

// No operation is open, now and later.
void WorkerEngine::NotifyIfLeft() {
  if (gone_ && front_.open_operations() == 0) milestones_.SetLeft();
}

void WorkerEngine::End(const Status& why) {
  if (phase_ == Phase::kOver) return;
  bool leaves = leaving_.wants();
  if (phase_ == Phase::kReady && !leaves) log_.Error("the job is over: {}", why.message());
  phase_ = Phase::kOver;
  settle_limit_.reset();
  control_.Close();
  gone_ = gone_ || leaves;
  StopFront(why);
  milestones_.SetStarted(why);
}

void WorkerEngine::TakeSubmissions() {
  while (std::optional<protocol::Operation> next = operations_.Next()) {
    protocol::OperationId id = next->id;
    protocol::Outcome refused;
    refused.status = front_.Submit(std::move(*next));
    if (!refused.status.ok()) Complete(id, std::move(refused));
  }
  lanes_->Deliver();
}

// Aborts again and again, until the owners have decided: connections break, and pieces wait for
// credit.
void WorkerEngine::AbortLateOnes(const std::vector<protocol::OperationId>& late) {
  if (phase_ != Phase::kReady || leaving_.wants()) return;
  for (const auto& [id, why] : accountant_.Judge(rank_, late)) front_.Abort(id, why);
  lanes_->Deliver();
}

// Takes the operations that were submitted before, and then does the work.
Status WorkerEngine::OnLoop(std::function<Status()> work) {
  if (auto refusal = operations_.refusal(); refusal.has_value()) return *refusal;
  return AskLoop(*loop_, kLoopLimit, [this, work = std::move(work)] {
    TakeSubmissions();
    Status done = work();
    lanes_->Deliver();
    return done;
  });
}

Status WorkerEngine::AddProcessSet(uint32_t number, const std::vector<uint32_t>& ranks) {
  return OnLoop([this, number, ranks] { return front_.AddProcessSet(number, ranks); });
}

Status WorkerEngine::RemoveProcessSet(uint32_t number) {
  return OnLoop([this, number] { return front_.RemoveProcessSet(number); });
}

void WorkerEngine::Declare(const std::string& name) {
  loop_->Post([this, name] { front_.Declare(name); });
}

void WorkerEngine::SetStuck(const std::string& name) {
  loop_->Post([this, name] {
    TakeSubmissions();
    front_.SetStuck(name);
  });
}

void WorkerEngine::GiveUp(const std::string& why) {
  loop_->Post([this, why] {
    if (phase_ != Phase::kReady || leaving_.wants()) return;
    SendControl(wire::Suspect{Role::kWorker, 0, 0, wire::Suspicion::kGaveUp, why});
  });
}

bool WorkerEngine::Leave() {
  auto until = [](Duration limit) { return std::chrono::steady_clock::now() + limit; };
  if (operations_.Refuse(ShutDown())) PostOrStop(*loop_, [this] { BeginToLeave(); });
  if (milestones_.WaitUntilLeft(until(options_.leave_limit))) return true;
  PostOrStop(*loop_, [this] { CutShort(); });
  if (milestones_.WaitUntilLeft(until(options_.end_limit))) return true;
  return milestones_.AwaitsCoordinator() &&
         milestones_.WaitUntilLeft(until(options_.control.patience));
}

// REQUIRES: Start has succeeded or failed.
void WorkerEngine::BeginToLeave() {
  TakeSubmissions();
  if (phase_ != Phase::kReady) {
    phase_ = Phase::kOver;
    return Left();
  }
  if (!leaving_.Begin()) return;
  settle_limit_ = loop_->After(kSettleLimit, [this] { SayLeave(); });
  front_.Settle();
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
  if (front_.open_operations() > 0) Left();
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
  auto leave = leaving_.Say(front_.open_operations());
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
  StopFront(ShutDown());
  NotifyIfLeft();
}

void WorkerEngine::SendControl(const wire::Message& message) {
  if (const auto* suspect = std::get_if<wire::Suspect>(&message)) gave_up_ = *suspect;
  control_.Send(message);
}

void WorkerEngine::ToLane(uint32_t lane, protocol::LaneMail mail) {
  lanes_->Send(lane, std::move(mail));
}

void WorkerEngine::Complete(protocol::OperationId id, protocol::Outcome outcome) {
  // An error that follows from this rank's own leaving is not the fault of a peer.
  if (leaving_.wants() && !outcome.status.ok()) outcome.status = ShutDown();
  operations_.Complete(id, std::move(outcome));
}

Result<StartedEngine> StartWorkerEngine(std::unique_ptr<transport::Transport> transport,
                                        const WorkerEngineOptions& options, Log& log) {
  try {
    auto engine = std::make_unique<WorkerEngine>(std::move(transport), options, log);
    Result<Standing> standing = engine->Start();
    if (!standing.ok()) return standing.status();
    StartedEngine started;
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
