#include "src/runtime/worker_engine.h"

#include <algorithm>
#include <future>
#include <utility>

#include "src/runtime/frames.h"

namespace byteps::runtime {
namespace {

// How long a leaving worker waits for the others to have what it holds; then, while operations
// borrow memory of its user, for its leave to be in force. Together less than leave_limit.
constexpr Duration kSettleLimit = seconds(2);
constexpr Duration kInForceLimit = milliseconds(1500);
constexpr Duration kLookForLateOnes = seconds(1);
// In one turn of the loop.
constexpr size_t kAbortsMax = 256;
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
      control_(*loop_, options.control, log,
               {[this] { OnControlReady(); },
                [this](const wire::Message& message) { OnControl(message); },
                [this](const Status& why) { End(why); }}),
      membership_(options.join),
      machine_(options.protocol, pool_, arithmetic_, *this),
      shards_(*loop_, options.shards, options.control.identity, pool_, machine_, log,
              {[this] { ReadyIfComplete(); }, [this] { OnEvent(); },
               [this](const wire::Suspect& suspect) { Suspect(suspect); },
               [this](const std::string& why) { End(Evicted("this worker", why)); }}),
      ticker_(
          *loop_, [this] { return machine_.NextTick(); },
          [this](Time now) { machine_.OnTick(now); }) {}

WorkerEngine::~WorkerEngine() {
  if (thread_.joinable()) Leave();
  loop_->Stop();
  if (thread_.joinable()) thread_.join();
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
    for (const wire::Known& known : machine_.Known()) control_.Send(known);
  }
  control_.Send(greeting);
  if (phase_ == Phase::kStarting && membership_.view().epoch == 0) return;
  machine_.AskAgain();
  shards_.TryAllAgain();
  for (const wire::Suspect& suspect : shards_.Suspects()) control_.Send(suspect);
  if (gave_up_.has_value()) control_.Send(*gave_up_);
  if (phase_ == Phase::kLeaving) control_.Send(wire::Leave{leave_clean_});
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
  if (const auto* declared = std::get_if<wire::Declared>(&message)) machine_.OnDeclared(*declared);
  if (const auto* failed = std::get_if<wire::DeclareFailed>(&message)) {
    machine_.OnDeclareFailed(*failed);
  }
  if (const auto* question = std::get_if<wire::Unbegun>(&message)) machine_.OnUnbegun(*question);
  if (std::holds_alternative<wire::Leave>(message) && phase_ == Phase::kLeaving) Left();
  OnEvent();
}

void WorkerEngine::OnView(const wire::View& view) {
  if (phase_ == Phase::kOver) return;
  if (membership_.IsEvicted()) {
    if (phase_ != Phase::kLeaving) {
      return End(Evicted("this worker", "view " + std::to_string(view.epoch)));
    }
    return Left();
  }
  uint64_t own = options_.join.incarnation;
  auto self = std::find_if(view.workers.begin(), view.workers.end(),
                           [&](const auto& worker) { return worker.incarnation == own; });
  if (self == view.workers.end() || machine_stopped_) return;
  rank_ = self->rank;
  log_.Rename("worker " + std::to_string(rank_));
  NoteMembers(view);
  shards_.CloseStale(view);
  machine_.OnView(view, self->slot);
  shards_.Connect(view, self->slot);
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
  OnEvent();
  const wire::View& view = membership_.view();
  bool served = std::any_of(view.servers.begin(), view.servers.end(),
                            [](const auto& server) { return server.alive; });
  if (phase_ != Phase::kStarting || !shards_.AllUp()) return;
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

// The machine has heard something.
void WorkerEngine::OnEvent() {
  ticker_.Arm();
  if (phase_ == Phase::kSettling) LeaveIfSettled();
}

void WorkerEngine::Suspect(const wire::Suspect& suspect) {
  if (phase_ != Phase::kOver) control_.Send(suspect);
}

// Nothing may write to users' memory when they are told.
void WorkerEngine::StopMachine() {
  machine_stopped_ = true;
  shards_.Close();
  machine_.Stop(ShutDown());
}

void WorkerEngine::NotifyLeft() {
  MutexLock lock(mutex_);
  left_ = true;
  changed_.notify_all();
}

void WorkerEngine::End(const Status& why) {
  if (phase_ == Phase::kOver) return;
  bool tell = phase_ == Phase::kReady;
  bool settles = phase_ == Phase::kSettling;
  bool leaves = phase_ == Phase::kLeaving;
  if (tell) log_.Error("the job is over: {}", why.message());
  phase_ = Phase::kOver;
  settle_limit_.reset();
  control_.Close();
  shards_.Close();
  machine_.Stop(leaves ? ShutDown() : why);
  MutexLock lock(mutex_);
  if (!started_.has_value()) started_ = Result<Standing>(why);
  left_ = left_ || leaves || settles;
  changed_.notify_all();
}

void WorkerEngine::Submit(protocol::Operation operation, Done done) {
  bool first = false;
  {
    MutexLock lock(mutex_);
    if (!stopped_) {
      first = submissions_.empty();
      submissions_.push_back({std::move(operation), std::move(done)});
    }
  }
  if (done != nullptr) {
    protocol::Outcome outcome;
    outcome.status = ShutDown();
    return done(std::move(outcome));
  }
  if (first) loop_->Post([this] { TakeSubmissions(); });
}

void WorkerEngine::TakeSubmissions() {
  {
    MutexLock lock(mutex_);
    taken_.swap(submissions_);
  }
  for (Submission& submission : taken_) {
    protocol::OperationId id = next_id_++;
    submission.operation.id = id;
    open_[id] = std::move(submission.done);
    if (options_.operation_limit > Duration::zero()) {
      due_[id] = loop_->Now() + options_.operation_limit;
    }
    Status accepted = machine_.Submit(std::move(submission.operation));
    if (accepted.ok()) continue;
    protocol::Outcome outcome;
    outcome.status = accepted;
    Complete(id, std::move(outcome));
  }
  taken_.clear();
  if (!due_.empty() && due_timer_ == nullptr) {
    Duration period = std::min<Duration>(options_.operation_limit / 2, kLookForLateOnes);
    due_timer_ = loop_->Every(period, [this] {
      if (!aborting_) AbortLateOnes(0);
    });
  }
  ticker_.Arm();
}

// Again and again until the owners have decided: connections break, and pieces wait for credit. Few
// at a time: there may be very many, and a rank that does nothing else is declared lost.
void WorkerEngine::AbortLateOnes(protocol::OperationId from) {
  aborting_ = false;
  Time now = loop_->Now();
  size_t count = 0;
  for (auto at = due_.lower_bound(from); at != due_.end(); ++at) {
    const auto& [id, due] = *at;
    if (due > now || phase_ != Phase::kReady) return;  // limits are equal: later ones are due later
    if (++count > kAbortsMax) {
      aborting_ = true;
      return loop_->Post([this, id] { AbortLateOnes(id); });
    }
    machine_.Abort(id, "rank " + std::to_string(rank_) +
                           " has waited longer than the limit (BYTEPS_OPERATION_TIMEOUT)");
  }
}

// What was submitted before is taken before.
Status WorkerEngine::OnLoop(std::function<Status()> work) {
  {
    MutexLock lock(mutex_);
    if (stopped_) return ShutDown();
  }
  auto promise = std::make_shared<std::promise<Status>>();
  std::future<Status> done = promise->get_future();
  loop_->Post([this, promise, work = std::move(work)] {
    TakeSubmissions();
    promise->set_value(work());
  });
  if (done.wait_for(kLoopLimit) == std::future_status::ready) return done.get();
  return {StatusCode::kDeadlineExceeded,
          "the session's thread does not answer; the job is ending, or this machine stands still"};
}

Status WorkerEngine::AddGroup(uint32_t number, const std::vector<uint32_t>& ranks) {
  return OnLoop([this, number, ranks] { return machine_.AddGroup(number, ranks); });
}

Status WorkerEngine::RemoveGroup(uint32_t number) {
  return OnLoop([this, number] { return machine_.RemoveGroup(number); });
}

void WorkerEngine::Declare(const std::string& name) {
  loop_->Post([this, name] { machine_.Declare(name); });
}

void WorkerEngine::SetStuck(const std::string& name) {
  loop_->Post([this, name] {
    TakeSubmissions();
    machine_.SetStuck(name);
  });
}

void WorkerEngine::GiveUp(const std::string& why) {
  loop_->Post([this, why] {
    if (phase_ != Phase::kReady) return;
    SendControl(wire::Suspect{Role::kWorker, 0, 0, wire::Suspicion::kGaveUp, why});
  });
}

bool WorkerEngine::Leave() {
  {
    MutexLock lock(mutex_);
    if (!stopped_) loop_->Post([this] { BeginToLeave(); });
    stopped_ = true;
  }
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
    if (phase_ == Phase::kStarting) phase_ = Phase::kOver;
    return Left();
  }
  phase_ = Phase::kSettling;
  settle_limit_ = loop_->After(kSettleLimit, [this] { SayLeave(); });
  LeaveIfSettled();
}

// Leaving took too long: what borrows memory of the user ends now. Where nothing does, a
// coordinator that is away is waited for, as in any other phase: not told, it would take the next
// session of this process for one too many. Else the rest goes on for as long as this engine lives.
void WorkerEngine::CutShort() {
  if (phase_ == Phase::kSettling) SayLeave();
  if (machine_.open_operations() > 0) Left();
  if (phase_ == Phase::kLeaving && !machine_stopped_ && !control_.is_connected()) {
    MutexLock lock(mutex_);
    awaits_coordinator_ = true;
    return;
  }
  NotifyLeft();
}

void WorkerEngine::LeaveIfSettled() {
  if (!machine_.HoldsUnstable()) SayLeave();
}

// Connections to the shards stay until the leave is in force, so that nobody takes it for a loss.
// With operations open nothing is taken from them any more: what this worker would then hold, and
// others lack, it could not pass on.
void WorkerEngine::SayLeave() {
  phase_ = Phase::kLeaving;
  leave_clean_ = machine_.open_operations() == 0;
  settle_limit_.reset();
  if (!leave_clean_) {
    shards_.IgnoreAnswers();
    settle_limit_ = loop_->After(kInForceLimit, [this] { Left(); });
  }
  control_.Send(wire::Leave{leave_clean_});
}

void WorkerEngine::Left() {
  settle_limit_.reset();
  StopMachine();
  NotifyLeft();
}

void WorkerEngine::SendControl(const wire::Message& message) {
  if (const auto* suspect = std::get_if<wire::Suspect>(&message)) gave_up_ = *suspect;
  control_.Send(message);
}

void WorkerEngine::Send(ShardId to, transport::OutFrame frame) {
  transport::Connection* connection = shards_.To(to);
  if (connection != nullptr) connection->Send(std::move(frame));
}

void WorkerEngine::SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload) {
  Send(to, DataFrame(wire::FrameKind::kPush, header, payload, {}));
}

void WorkerEngine::SendVerdict(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                               BufferRef keep) {
  Send(to, DataFrame(wire::FrameKind::kVerdict, header, payload, std::move(keep)));
}

void WorkerEngine::SendHave(ShardId to, uint64_t epoch,
                            const std::vector<wire::HeldPiece>& pieces) {
  Send(to, HaveFrame(pool_, epoch, pieces));
}

void WorkerEngine::SendResync(ShardId to, uint64_t epoch) {
  Send(to, NumberFrame(wire::FrameKind::kResync, epoch));
}

void WorkerEngine::SendAbort(ShardId to, const wire::DataHeader& push, const std::string& why) {
  Send(to, AbortFrame(pool_, push, why));
}

void WorkerEngine::SendAck(ShardId to, const wire::Progress& ack) {
  Send(to, ProgressFrame(wire::FrameKind::kAck, ack));
}

void WorkerEngine::SendGroup(ShardId to, const wire::Progress& number,
                             const protocol::SlotSet& slots) {
  std::vector<std::byte> bitmap(slots.bitmap_bytes());
  slots.ToBitmap(bitmap);
  Send(to, GroupFrame(pool_, number, bitmap));
}

void WorkerEngine::SendJoined(ShardId to, const wire::Progress& number) {
  Send(to, ProgressFrame(wire::FrameKind::kJoined, number));
}

void WorkerEngine::Forget(ConstByteSpan memory) { shards_.Detach(memory); }

void WorkerEngine::Complete(protocol::OperationId id, protocol::Outcome outcome) {
  // What this rank's own leaving did to it is no fault of a peer.
  bool leaving = phase_ == Phase::kSettling || phase_ == Phase::kLeaving;
  if (leaving && !outcome.status.ok()) outcome.status = ShutDown();
  due_.erase(id);
  auto found = open_.extract(id);
  if (!found.empty()) found.mapped()(std::move(outcome));
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
