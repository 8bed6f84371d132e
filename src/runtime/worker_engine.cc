#include "src/runtime/worker_engine.h"

#include <algorithm>
#include <future>
#include <utility>

namespace byteps::runtime {
namespace {

// How long a leaving worker waits for the others to have what it holds; then, while operations
// borrow memory of its user, for its leave to be in force. Together less than leave_limit.
constexpr Duration kSettleLimit = seconds(2);
constexpr Duration kInForceLimit = milliseconds(1500);
// The loop never blocks; it may have ended.
constexpr Duration kLoopLimit = seconds(10);
// How often a start asks whether it shall go on.
constexpr Duration kAskEvery = milliseconds(50);

Status ShutDown() { return {StatusCode::kShutdown, "the session was shut down"}; }

Status BrokenOff() {
  return {StatusCode::kShutdown, "joining the job was broken off; this process is not in it"};
}

Status Evicted(const std::string& who, const std::string& source) {
  return {StatusCode::kEvicted,
          who + " was declared lost and the others went on without it (" + source +
              "): it was silent for too long, because it stood still, was frozen or was cut off "
              "from the network. What it computed since does not count; started again it is let in "
              "when the others begin anew"};
}

}  // namespace

WorkerEngine::WorkerEngine(std::unique_ptr<transport::Transport> transport,
                           const WorkerEngineOptions& options, Log& log)
    : transport_(std::move(transport)),
      options_(options),
      log_(log),
      loop_(transport_->MakeLoop()),
      operations_(
          *loop_, options.operation_limit,
          {[this] { TakeSubmissions(); },
           [this](const std::vector<protocol::OperationId>& late) { AbortLateOnes(late); }}),
      control_(*loop_, options.control, log,
               {[this] { OnControlReady(); },
                [this](const wire::Message& message) { OnControl(message); },
                [this](const Status& why) { End(why); }}),
      membership_(options.join),
      front_(protocol::FrontOptionsOf(options.protocol), arithmetic_, *this),
      lanes_(std::make_unique<LaneGroup>(
          *transport_, *loop_, options.protocol, options.shards, options.control.identity, log,
          LaneGroup::Events{[this](protocol::FrontMail mail) { front_.OnMail(std::move(mail)); },
                            [this] { OnEvent(); }, [this] { ReadyIfComplete(); },
                            [this](const wire::Suspect& suspect) { Suspect(suspect); },
                            [this](const std::string& why) { End(Evicted("this worker", why)); }})),
      ticker_(
          *loop_, [this] { return front_.NextTick(); },
          [this](Time now) {
            front_.OnTick(now);
            lanes_->Deliver();
          }) {}

WorkerEngine::~WorkerEngine() {
  if (thread_.joinable()) Leave();
  loop_->Stop();
  if (thread_.joinable()) thread_.join();
  lanes_.reset();
  // What no loop was left to end: nothing touches its memory any more.
  operations_.EndAll(ShutDown());
}

Result<Standing> WorkerEngine::Start() {
  control_.Start();
  thread_ = std::thread([this] {
    loop_->Run();
    Left();  // nobody waits for a loop that does not run
  });
  auto now = std::chrono::steady_clock::now();
  const auto deadline = now + options_.start_limit;
  for (; now < deadline; now = std::chrono::steady_clock::now()) {
    bool asks = options_.go_on != nullptr;
    auto started = WaitForStart(asks ? std::min(now + kAskEvery, deadline) : deadline);
    if (started.has_value()) return *std::move(started);
    if (!asks || options_.go_on()) continue;
    loop_->Post([this] { BreakOff(); });
    return BrokenOff();
  }
  return Status(StatusCode::kDeadlineExceeded,
                "the job did not start in time; raise BYTEPS_START_TIMEOUT or look at the "
                "scheduler's output");
}

std::optional<Result<Standing>> WorkerEngine::WaitForStart(
    std::chrono::steady_clock::time_point until) {
  MutexLock lock(mutex_);
  while (!started_.has_value()) {
    if (!lock.WaitUntil(changed_, until)) break;
  }
  return started_;
}

// Before it is in a view, its closed connection frees its place at once. In one it leaves in order
// like a worker that has started: otherwise the others would lose it.
void WorkerEngine::BreakOff() {
  if (phase_ != Phase::kStarting) return;
  if (membership_.view().epoch == 0) return End(BrokenOff());
  phase_ = Phase::kReady;
}

// A coordinator that was restarted, or one that only lost the connection, is told all it may lack.
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
    // One voice is enough: the first worker of a machine speaks for its neighbours.
    if (options_.join.local_rank == 0) log_.Warning("waiting: {}", waiting->text);
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
  if (const auto* question = std::get_if<wire::Unbegun>(&message)) front_.OnUnbegun(*question);
  if (std::holds_alternative<wire::Leave>(message) && leave_is_out_) Left();
  lanes_->Deliver();
}

void WorkerEngine::OnView(const wire::View& view) {
  if (phase_ == Phase::kOver) return;
  if (membership_.IsEvicted()) {
    if (leave_is_out_) return Left();
    return End(Evicted("this worker", "view " + std::to_string(view.epoch)));
  }
  uint64_t own = options_.join.incarnation;
  auto self = std::find_if(view.workers.begin(), view.workers.end(),
                           [&](const auto& worker) { return worker.incarnation == own; });
  if (self == view.workers.end() || front_stopped_) return;
  rank_ = self->rank;
  log_.Rename("worker " + std::to_string(rank_));
  NoteMembers(view);
  front_.OnView(view, self->slot, rank_);
  lanes_->Deliver();
  ReadyIfComplete();
}

void WorkerEngine::NoteMembers(const wire::View& view) {
  MutexLock lock(mutex_);
  members_.clear();
  for (const wire::WorkerInfo& worker : view.workers) {
    if (!worker.left) members_.push_back(worker.rank);
  }
  std::sort(members_.begin(), members_.end());
}

std::vector<uint32_t> WorkerEngine::Members() {
  MutexLock lock(mutex_);
  return members_;
}

void WorkerEngine::ReadyIfComplete() {
  const wire::View& view = membership_.view();
  bool served = std::any_of(view.servers.begin(), view.servers.end(),
                            [](const auto& server) { return server.alive; });
  if (phase_ != Phase::kStarting || !lanes_->AllUp(view.epoch)) return;
  if (view.epoch == 0 || (!served && !view.servers.empty())) return;
  phase_ = Phase::kReady;
  Standing standing;
  standing.ranks.clear();
  for (const wire::WorkerInfo& worker : wire::WorkersOfGeneration(view)) {
    standing.ranks.push_back(worker.rank);
  }
  std::sort(standing.ranks.begin(), standing.ranks.end());
  standing.size = static_cast<uint32_t>(standing.ranks.size());
  for (const wire::WorkerInfo& worker : view.workers) {
    if (worker.incarnation == options_.join.incarnation) standing.rank = worker.rank;
  }
  MutexLock lock(mutex_);
  started_ = standing;
  changed_.notify_all();
}

// The front has heard something.
void WorkerEngine::OnEvent() {
  ticker_.Arm();
  NotifyIfLeft();
}

void WorkerEngine::Suspect(const wire::Suspect& suspect) {
  if (phase_ != Phase::kOver) control_.Send(suspect);
}

// Nothing may write to users' memory when they are told.
void WorkerEngine::StopFront() {
  front_stopped_ = true;
  lanes_->Close();
  front_.Stop(ShutDown());
  lanes_->Deliver();
}

// No operation is open, now and later.
void WorkerEngine::NotifyIfLeft() {
  if (!gone_ || front_.open_operations() > 0) return;
  MutexLock lock(mutex_);
  left_ = true;
  changed_.notify_all();
}

void WorkerEngine::End(const Status& why) {
  if (phase_ == Phase::kOver) return;
  bool leaves = leaving_.wants();
  if (phase_ == Phase::kReady && !leaves) log_.Error("the job is over: {}", why.message());
  phase_ = Phase::kOver;
  settle_limit_.reset();
  control_.Close();
  lanes_->Close();
  front_.Stop(leave_is_out_ ? ShutDown() : why);
  gone_ = gone_ || leaves;
  lanes_->Deliver();
  MutexLock lock(mutex_);
  if (!started_.has_value()) started_ = Result<Standing>(why);
  changed_.notify_all();
}

void WorkerEngine::Submit(protocol::Operation operation, Done done) {
  operations_.Submit(std::move(operation), std::move(done));
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

// Again and again until the owners have decided: connections break, and pieces wait for credit.
void WorkerEngine::AbortLateOnes(const std::vector<protocol::OperationId>& late) {
  if (phase_ != Phase::kReady || leaving_.wants()) return;
  for (protocol::OperationId id : late) {
    front_.Abort(id, "rank " + std::to_string(rank_) +
                         " has waited longer than the limit (BYTEPS_OPERATION_TIMEOUT)");
  }
  lanes_->Deliver();
}

// What was submitted before is taken before.
Status WorkerEngine::OnLoop(std::function<Status()> work) {
  if (auto refusal = operations_.refusal(); refusal.has_value()) return *refusal;
  auto promise = std::make_shared<std::promise<Status>>();
  std::future<Status> done = promise->get_future();
  loop_->Post([this, promise, work = std::move(work)] {
    TakeSubmissions();
    promise->set_value(work());
    lanes_->Deliver();
  });
  if (done.wait_for(kLoopLimit) == std::future_status::ready) return done.get();
  return {StatusCode::kDeadlineExceeded,
          "the session's thread does not answer; the job is ending, or this machine stands still"};
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
  if (operations_.Refuse(ShutDown())) loop_->Post([this] { BeginToLeave(); });
  if (WaitUntilLeft(options_.leave_limit)) return true;
  loop_->Post([this] { CutShort(); });
  if (WaitUntilLeft(options_.end_limit)) return true;
  {
    MutexLock lock(mutex_);
    if (!awaits_coordinator_) return false;
  }
  return WaitUntilLeft(options_.control.patience);
}

bool WorkerEngine::WaitUntilLeft(Duration limit) {
  auto deadline = std::chrono::steady_clock::now() + limit;
  MutexLock lock(mutex_);
  while (!left_) {
    if (!lock.WaitUntil(changed_, deadline)) break;
  }
  return left_;
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

// Leaving took too long: what borrows memory of the user ends now. Where nothing does, a
// coordinator that is away is waited for, as in any other phase: not told, it would take the next
// session of this process for one too many. Else the rest goes on for as long as this engine lives.
void WorkerEngine::CutShort() {
  SayLeave();
  if (front_.open_operations() > 0) Left();
  if (leave_is_out_ && !front_stopped_ && !control_.is_connected()) {
    MutexLock lock(mutex_);
    awaits_coordinator_ = true;
    return;
  }
  gone_ = true;
  NotifyIfLeft();
}

// Connections to the shards stay until the leave is in force, so that nobody takes it for a loss.
// With operations open nothing is taken from them any more: what this worker would then hold, and
// others lack, it could not pass on.
void WorkerEngine::SayLeave() {
  auto leave = leaving_.Say(front_.open_operations());
  if (!leave.has_value()) return;
  settle_limit_.reset();
  auto say = [this, leave] {
    leave_is_out_ = true;
    control_.Send(*leave);
  };
  if (leave->clean) return say();
  settle_limit_ = loop_->After(kInForceLimit, [this] { Left(); });
  lanes_->IgnoreAnswers(say);
}

void WorkerEngine::Left() {
  settle_limit_.reset();
  gone_ = true;
  StopFront();
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
  // What this rank's own leaving did to it is no fault of a peer.
  if (leaving_.wants() && !outcome.status.ok()) outcome.status = ShutDown();
  operations_.Complete(id, std::move(outcome));
}

Result<StartedEngine> StartWorkerEngine(std::unique_ptr<transport::Transport> transport,
                                        const WorkerEngineOptions& options, Log& log) {
  auto engine = std::make_unique<WorkerEngine>(std::move(transport), options, log);
  Result<Standing> standing = engine->Start();
  if (!standing.ok()) return standing.status();
  StartedEngine started;
  started.engine = std::move(engine);
  started.standing = standing.value();
  return started;
}

}  // namespace byteps::runtime
