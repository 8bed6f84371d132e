#include "src/runtime/worker_engine.h"

#include <algorithm>
#include <utility>

#include "src/runtime/frames.h"

namespace byteps::runtime {
namespace {

// How long the coordinator may take to say who was lost after a connection to a shard broke.
constexpr Duration kVerdictLimit = seconds(2);
// How long an orderly leave may take.
constexpr Duration kLeaveLimit = seconds(2);

Status ShutDown() { return {StatusCode::kShutdown, "the session was shut down"}; }

}  // namespace

// The connection to a shard, while it is made and after.
struct WorkerEngine::ShardLink final : transport::FrameReceiver {
  ShardLink(WorkerEngine& owner, ShardId number) : engine(owner), shard(number) {}

  Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan bytes, size_t payload_bytes) override {
    incoming = static_cast<wire::FrameKind>(kind);
    if (incoming == wire::FrameKind::kAnswer) {
      Result<wire::DataHeader> header = wire::DecodeDataHeader(bytes, payload_bytes);
      if (!header.ok()) return header.status();
      return engine.machine_.OnAnswerHeader(shard, header.value(), payload_bytes);
    }
    if (incoming == wire::FrameKind::kWant) {
      want.resize(payload_bytes);
      return ByteSpan(want);
    }
    return Status(StatusCode::kProtocol, "frame " + std::to_string(kind) + " for a worker");
  }

  void OnFrame() override {
    if (incoming == wire::FrameKind::kAnswer) {
      engine.machine_.OnAnswer(shard, engine.loop_->Now());
    } else if (wire::DecodePieceRefs(want, refs).ok()) {
      engine.machine_.OnWant(shard, refs);
    }
    engine.ticker_.Arm();
  }

  void OnClosed(const Status& why) override { engine.OnShardClosed(shard, why); }

  WorkerEngine& engine;
  ShardId shard;
  std::unique_ptr<HandshakeInitiator> handshake;
  std::unique_ptr<transport::Connection> connection;
  wire::FrameKind incoming = wire::FrameKind::kAnswer;
  std::vector<std::byte> want;
  std::vector<wire::PieceRef> refs;
};

WorkerEngine::WorkerEngine(std::unique_ptr<transport::Transport> transport,
                           const WorkerEngineOptions& options, Log& log)
    : transport_(std::move(transport)),
      options_(options),
      log_(log),
      loop_(transport_->MakeLoop()),
      control_(*loop_, options.control, log,
               {[this] { control_.Send(options_.join); },
                [this](const wire::Message& message) { OnControl(message); },
                [this](const Status& why) { End(why); }}),
      machine_(options.protocol, arithmetic_, *this),
      ticker_(
          *loop_, [this] { return machine_.NextTick(); },
          [this](Time now) { machine_.OnTick(now); }) {}

WorkerEngine::~WorkerEngine() {
  Leave();
  loop_->Stop();
  if (thread_.joinable()) thread_.join();
}

Result<Standing> WorkerEngine::Start() {
  control_.Start();
  thread_ = std::thread([this] { loop_->Run(); });
  auto deadline = std::chrono::steady_clock::now() + options_.start_limit;
  MutexLock lock(mutex_);
  while (!started_.has_value()) {
    if (!lock.WaitUntil(changed_, deadline) && !started_.has_value()) {
      return Status(StatusCode::kDeadlineExceeded,
                    "the job did not start in time; raise BYTEPS_START_TIMEOUT or look at the "
                    "scheduler's output");
    }
  }
  return *started_;
}

void WorkerEngine::OnControl(const wire::Message& message) {
  if (const auto* view = std::get_if<wire::View>(&message)) OnView(*view);
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
  if (std::holds_alternative<wire::Leave>(message)) {
    CloseShards();
    MutexLock lock(mutex_);
    left_ = true;
    changed_.notify_all();
  }
  ticker_.Arm();
}

void WorkerEngine::OnView(const wire::View& view) {
  if (phase_ != Phase::kStarting) return;
  view_ = view;
  for (const wire::ServerInfo& server : view.servers) {
    for (size_t i = 0; i < server.shard_weights.size(); ++i) {
      links_.push_back(std::make_unique<ShardLink>(*this, static_cast<ShardId>(links_.size())));
      ConnectShard(links_.back()->shard, server);
    }
  }
  for (const wire::WorkerInfo& worker : view.workers) {
    if (worker.slot == view.slot) log_.Rename("worker " + std::to_string(worker.rank));
  }
}

void WorkerEngine::ConnectShard(ShardId shard, const wire::ServerInfo& server) {
  wire::Hello hello;
  hello.role = Role::kWorker;
  hello.wanted_role = Role::kServer;
  hello.index = view_.slot;
  hello.wanted_index = shard;
  hello.wanted_incarnation = server.incarnation;
  hello.generation = view_.generation;
  loop_->Connect(server.address, options_.control.connect_limit,
                 [this, shard, hello](Result<std::unique_ptr<transport::Connection>> connection) {
                   if (!connection.ok()) return OnShardBound(shard, connection.status());
                   if (phase_ != Phase::kStarting) return;
                   links_[shard]->handshake = std::make_unique<HandshakeInitiator>(
                       *loop_, pool_, std::move(connection).value(), options_.control.identity,
                       hello, kHandshakeLimit,
                       [this, shard](Result<std::unique_ptr<transport::Connection>> bound) {
                         OnShardBound(shard, std::move(bound));
                       });
                 });
}

std::string WorkerEngine::NameOfServer(ShardId shard) const {
  for (const wire::ServerInfo& server : view_.servers) {
    if (shard - server.first_shard < server.shard_weights.size()) {
      return "server " + std::to_string(server.index) + " at " + server.address;
    }
  }
  return "a server";
}

void WorkerEngine::OnShardBound(ShardId shard,
                                Result<std::unique_ptr<transport::Connection>> connection) {
  if (phase_ != Phase::kStarting) return;
  if (!connection.ok()) {
    return End({connection.status().code(),
                "cannot connect to " + NameOfServer(shard) + ": " + connection.status().message()});
  }
  ShardLink& link = *links_[shard];
  link.connection = std::move(connection).value();
  link.connection->SetLimits({size_t{64} << 20});
  link.connection->Start(&link);
  ReadyIfComplete();
}

void WorkerEngine::ReadyIfComplete() {
  for (auto& link : links_) {
    if (link->connection == nullptr) return;
  }
  phase_ = Phase::kReady;
  machine_.OnView(view_);
  Standing standing;
  standing.size = static_cast<uint32_t>(view_.workers.size());
  for (const wire::WorkerInfo& worker : view_.workers) {
    if (worker.slot == view_.slot) standing.rank = worker.rank;
  }
  MutexLock lock(mutex_);
  started_ = standing;
  changed_.notify_all();
}

// The coordinator knows best who was lost; if it does not say so in time, say what is known here.
void WorkerEngine::OnShardClosed(ShardId shard, const Status& why) {
  // Also while other shards are being connected: no operation may begin without this one.
  if (phase_ != Phase::kReady && phase_ != Phase::kStarting) return;
  uint32_t server = 0;
  for (const wire::ServerInfo& info : view_.servers) {
    if (shard - info.first_shard < info.shard_weights.size()) server = info.index;
  }
  control_.Send(wire::Suspect{Role::kServer, server, why.message()});
  if (verdict_due_ != nullptr) return;
  Status text(StatusCode::kPeerLost, NameOfServer(shard) + " was lost: " + why.message());
  verdict_due_ = loop_->After(kVerdictLimit, [this, text] { End(text); });
}

void WorkerEngine::CloseShards() {
  for (auto& link : links_) {
    link->handshake.reset();
    link->connection.reset();
  }
}

// Nothing may write to users' memory when they are told.
void WorkerEngine::End(const Status& why) {
  if (phase_ == Phase::kOver) return;
  bool starting = phase_ == Phase::kStarting;
  if (!starting && phase_ != Phase::kLeaving) log_.Error("the job is over: {}", why.message());
  phase_ = Phase::kOver;
  control_.Close();
  CloseShards();
  machine_.Stop(why);
  MutexLock lock(mutex_);
  if (!started_.has_value()) started_ = Result<Standing>(why);
  left_ = true;
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
    Status accepted = machine_.Submit(std::move(submission.operation));
    if (accepted.ok()) continue;
    protocol::Outcome outcome;
    outcome.status = accepted;
    Complete(id, std::move(outcome));
  }
  taken_.clear();
  ticker_.Arm();
}

void WorkerEngine::Declare(const std::string& name) {
  loop_->Post([this, name] { machine_.Declare(name); });
}

void WorkerEngine::Leave() {
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
  }
  loop_->Post([this] { LeaveInLoop(); });
  auto deadline = std::chrono::steady_clock::now() + kLeaveLimit;
  {
    MutexLock lock(mutex_);
    while (!left_) {
      if (!lock.WaitUntil(changed_, deadline)) break;
    }
  }
}

void WorkerEngine::LeaveInLoop() {
  TakeSubmissions();
  bool clean = machine_.open_operations() == 0;
  if (phase_ == Phase::kReady) control_.Send(wire::Leave{clean});
  bool told = phase_ == Phase::kReady;
  if (phase_ != Phase::kOver) phase_ = Phase::kLeaving;
  CloseShards();
  machine_.Stop(ShutDown());
  if (told) return;
  MutexLock lock(mutex_);
  left_ = true;
  changed_.notify_all();
}

void WorkerEngine::SendControl(const wire::Message& message) { control_.Send(message); }

void WorkerEngine::SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload) {
  transport::Connection* connection = links_[to]->connection.get();
  if (connection == nullptr) return;
  connection->Send(DataFrame(wire::FrameKind::kPush, header, payload, {}));
}

void WorkerEngine::SendAck(ShardId to, uint64_t count) {
  transport::Connection* connection = links_[to]->connection.get();
  if (connection != nullptr) connection->Send(AckFrame(count));
}

void WorkerEngine::Forget(ConstByteSpan memory) {
  for (auto& link : links_) {
    if (link->connection != nullptr) link->connection->Detach(memory, pool_);
  }
}

void WorkerEngine::Complete(protocol::OperationId id, protocol::Outcome outcome) {
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
