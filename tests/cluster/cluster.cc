#include "tests/cluster/cluster.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

#include "src/base/proof.h"
#include "src/machine/member/member_lanes.h"
#include "src/machine/serverless/local_engine.h"
#include "src/runtime/shared_address.h"
#include "src/transport/inproc/inproc_transport.h"
#include "src/transport/rdma/over_standin_for_test.h"
#include "src/transport/shared/shared_transport.h"
#include "src/transport/tcp/tcp_transport.h"

namespace byteps::cluster {
namespace {

constexpr const char* kVersion = "1.2.3";
constexpr const char* kHost = "here";

std::shared_ptr<transport::Transport> MakeTransport(Medium medium) {
  if (medium == Medium::kInproc) return transport::MakeInprocTransport();
  if (medium == Medium::kTcp || HasMachines(medium)) return transport::MakeTcpTransport({});
  if (medium == Medium::kShared) return transport::MakeSharedTransport({});
  if (medium == Medium::kRdma) {
    return std::make_shared<transport::OverStandin>(transport::RdmaOptions());
  }
  if (medium == Medium::kWindow) return nullptr;
  auto tls = transport::MakeTlsTransport({}, {"cluster-test", {std::byte{1}}});
  EXPECT_TRUE(tls.ok()) << tls.status().ToString();
  return std::move(tls).value();
}

}  // namespace

void Ticket::Complete(protocol::Outcome outcome) {
  MutexLock lock(mutex_);
  if (++completions_ == 1) outcome_ = std::move(outcome);
  changed_.notify_all();
}

const protocol::Outcome* Ticket::Wait() {
  auto deadline = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(mutex_);
  while (completions_ == 0) {
    if (!lock.WaitUntil(changed_, deadline) && completions_ == 0) return nullptr;
  }
  return &outcome_;  // written once
}

Status Ticket::WaitStatus() {
  const protocol::Outcome* outcome = Wait();
  if (outcome == nullptr) return {StatusCode::kInternal, "the operation does not end"};
  return outcome->status;
}

int Ticket::completions() {
  MutexLock lock(mutex_);
  return completions_;
}

RunningProcess::RunningProcess(std::function<Status()> run)
    : ended_(promise_.get_future().share()),
      thread_([this, run = std::move(run)] { promise_.set_value(run()); }) {}

RunningProcess::~RunningProcess() { thread_.join(); }

Status RunningProcess::WaitForEnd() {
  if (ended_.wait_for(kPatience) == std::future_status::ready) return ended_.get();
  return {StatusCode::kDeadlineExceeded, "the process is still running"};
}

Cluster::Cluster(const ClusterOptions& options)
    : options_(options),
      log_("cluster", "fatal", true),
      transport_(MakeTransport(options.medium)) {}

Cluster::~Cluster() {
  for (size_t i = 0; i < workers_.size(); ++i) {
    bool killed = workers_[i].engine == nullptr;
    workers_[i].engine.reset();
    for (const TicketRef& ticket : workers_[i].tickets) {
      if (killed) continue;
      EXPECT_EQ(ticket->completions(), 1) << "an operation of worker " << i;
    }
  }
  Status why(StatusCode::kShutdown, "the test is over");
  for (auto& server : servers_) {
    if (server->process != nullptr) server->process->Stop(why);
  }
  if (coordinator_ != nullptr) coordinator_->Stop(why);
}

// Returns the address of the device over which RDMA is tested, if it is not the stand-in.
std::string Cluster::DeviceAddress() const {
  return options_.medium == Medium::kRdma ? standin::RealAddress() : "";
}

std::string Cluster::ListenAddress() const {
  if (options_.medium == Medium::kInproc) return "inproc:0";
  const std::string device = DeviceAddress();
  return (device.empty() ? "127.0.0.1" : device) + ":0";
}

Status Cluster::StartServices() {
  if (options_.medium == Medium::kWindow) return Status::Ok();
  Status coordinator = StartCoordinator(ListenAddress());
  if (!coordinator.ok()) return coordinator;
  for (uint32_t i = 0; i < options_.servers; ++i) StartServer(ServerOptions());
  return Status::Ok();
}

Status Cluster::StartCoordinator(const std::string& address) {
  runtime::CoordinatorProcessOptions process;
  process.address = address;
  process.identity = identity();
  process.identity.incarnation = RandomIncarnation();
  process.protocol.worker_machines = options_.workers;
  if (HasMachines(options_.medium)) process.protocol.local_sizes = Layout().sizes();
  process.protocol.server_count = options_.servers;
  process.protocol.version = kVersion;
  process.protocol.start_timeout = options_.start_timeout;
  process.protocol.report_every = options_.report_every;
  process.protocol.min_workers = options_.min_workers;
  process.protocol.grace = options_.grace;
  process.protocol.silence_evict = options_.silence_evict;
  process.protocol.silence_end = options_.silence_end;
  process.protocol.server_patience = options_.server_patience;
  process.protocol.quorum_patience = kPatience;
  process.protocol.recovery_patience = kPatience;
  process.protocol.judge_after = kOverdueAfter;
  process.exit_notices = options_.exit_notices;
  process.host = kHost;
  coordinator_transport_ = std::make_unique<SharedTransport>(transport_);
  coordinator_ =
      std::make_unique<runtime::CoordinatorProcess>(*coordinator_transport_, process, log_);
  Result<std::string> bound = coordinator_->Listen();
  if (!bound.ok()) return bound.status();
  coordinator_address_ = bound.value();
  coordinator_running_ =
      std::make_unique<RunningProcess>([process = coordinator_.get()] { return process->Run(); });
  return Status::Ok();
}

runtime::ServerProcessOptions Cluster::ServerOptions() const {
  runtime::ServerProcessOptions process;
  process.control.coordinator = coordinator_address_;
  process.control.role = Role::kServer;
  process.control.identity = identity();
  process.control.identity.incarnation = RandomIncarnation();
  process.control.connect_limit = kPatience;
  process.control.patience = options_.coordinator_patience;
  process.control.silence_max = kPatience;
  process.join.role = Role::kServer;
  process.join.incarnation = process.control.identity.incarnation;
  process.join.host = kHost;
  process.join.process = kFirstServerProcess + static_cast<uint32_t>(servers_.size());
  process.join.node = "here";
  process.join.shards = options_.shards;
  process.join.server_count = options_.servers;
  process.shared_links = options_.medium == Medium::kShared;
  if (!DeviceAddress().empty()) process.announced_hosts = {DeviceAddress()};
  process.codecs = options_.codecs;
  process.join.piece_bytes_max = options_.piece_bytes_max;
  process.join.version = kVersion;
  return process;
}

void Cluster::StartServer(const runtime::ServerProcessOptions& options) {
  auto server = std::make_unique<Server>(transport_);
  runtime::ComebackOptions comebacks;
  comebacks.in_a_row_max = options_.comebacks;
  server->process =
      std::make_unique<runtime::ReturningServer>(server->transport, options, comebacks, log_);
  Result<std::string> address = server->process->Listen(ListenAddress());
  EXPECT_TRUE(address.ok()) << address.status().ToString();
  if (!address.ok()) return;
  server->address = address.value();
  const runtime::JobIdentity& identity = options.control.identity;
  server->shared_address = runtime::SharedAddress(identity, identity.incarnation);
  server->running = std::make_unique<RunningProcess>(
      [process = server->process.get()] { return process->Run(); });
  servers_.push_back(std::move(server));
}

runtime::WorkerEngineOptions Cluster::WorkerOptions(uint32_t rank) const {
  runtime::WorkerEngineOptions worker;
  worker.control.coordinator = coordinator_address_;
  worker.control.identity = identity();
  worker.control.identity.incarnation = RandomIncarnation();
  worker.control.connect_limit = kPatience;
  worker.control.patience = options_.coordinator_patience;
  worker.control.silence_max = kPatience;
  worker.control.alive_every = options_.alive_every;
  worker.shards.unreachable_after = options_.unreachable_after;
  worker.shards.first_unreachable_after = kPatience;
  if (options_.medium == Medium::kShared) worker.shards.shared_host = kHost;
  worker.join.rank = static_cast<int32_t>(rank);
  worker.join.incarnation = worker.control.identity.incarnation;
  worker.join.host = kHost;
  worker.join.node = "here";
  worker.join.process = kFirstWorkerProcess + rank;
  worker.join.worker_count = options_.workers;
  worker.join.server_count = options_.servers;
  worker.join.piece_bytes_max = options_.piece_bytes_max;
  worker.join.version = kVersion;
  worker.join.local_rank = 1;  // no effect on waiting
  worker.join.same_bits = options_.same_bits;
  worker.join.sum_group = options_.sum_group;
  if (HasMachines(options_.medium)) worker.join.local_sizes = Layout().sizes();
  worker.protocol.credit.fixed_bytes = options_.credit_bytes;
  worker.protocol.lanes = options_.lanes[std::min<size_t>(rank, options_.lanes.size() - 1)];
  worker.protocol.overdue_after = kOverdueAfter;
  worker.protocol.codecs = options_.codecs;
  worker.protocol.paths = options_.paths;
  worker.start_limit = kPatience;
  worker.operation_limit = options_.operation_limit;
  worker.leave_limit = options_.leave_limit;
  worker.end_limit = options_.end_limit;
  return worker;
}

Result<runtime::StartedEngine> Cluster::StartLocal(uint32_t rank) {
  machine::LocalEngineOptions local;
  // Has a name of its own, because other tests run beside this one.
  local.job = "cluster-test " + std::to_string(getpid());
  local.secret = identity().secret;
  local.version = kVersion;
  local.rank = rank;
  local.size = options_.workers;
  local.same_bits = options_.same_bits;
  local.sum_group = options_.sum_group;
  local.start_limit = kPatience;
  local.operation_limit = options_.operation_limit;
  local.leave_limit = options_.leave_limit;
  local.end_limit = options_.end_limit;
  local.silence_max = options_.silence_end;
  // Nothing wakes a rank that no other rank has woken.
  local.alive_every = options_.window_beats ? options_.alive_every : options_.silence_end;
  local.overdue_after = local.judge_after = kOverdueAfter;
  return machine::StartLocalEngine(local, log_);
}

MachineLayout Cluster::Layout() const {
  std::vector<uint32_t> sizes = options_.machine_sizes;
  for (uint32_t rank = 0; options_.machine_sizes.empty() && rank < options_.workers;) {
    sizes.push_back(std::min(options_.machine_ranks, options_.workers - rank));
    rank += sizes.back();
  }
  return MachineLayout(std::move(sizes));
}

std::pair<uint32_t, uint32_t> Cluster::PlaceOf(uint32_t rank) const {
  const MachineLayout layout = Layout();
  std::vector<std::pair<uint32_t, uint32_t>> places;
  for (uint32_t machine = 0; machine < layout.machines(); ++machine) {
    for (uint32_t local = 0; local < layout.SizeOf(machine); ++local) {
      places.emplace_back(machine, local);
    }
  }
  if (options_.medium == Medium::kInTurn) {
    std::ranges::sort(places, {}, [](auto place) { return std::pair(place.second, place.first); });
  }
  return places[rank];
}

Result<runtime::StartedEngine> Cluster::StartInMachine(
    std::unique_ptr<transport::Transport> transport, uint32_t rank) {
  machine::MachineOptions machine;
  // Has a name of its own, because other tests run beside this one.
  machine.job = "cluster-test " + std::to_string(getpid());
  machine.secret = identity().secret;
  machine.version = kVersion;
  const auto [number, local_rank] = PlaceOf(rank);
  machine.machine = std::to_string(number);
  machine.local_rank = local_rank;
  machine.local_size = Layout().SizeOf(number);
  if (machine.local_size == 1) {
    return runtime::StartWorkerEngine(std::move(transport), WorkerOptions(rank), log_);
  }
  return machine::StartMachineWorker(std::move(transport), WorkerOptions(rank), machine, log_);
}

Result<Cluster::Worker> Cluster::MakeWorker(uint32_t rank) {
  Worker worker;
  Result<runtime::StartedEngine> started = Status(StatusCode::kInternal, "not started");
  if (options_.medium == Medium::kWindow) {
    started = StartLocal(rank);
  } else {
    auto transport = std::make_unique<SharedTransport>(transport_, true);
    worker.transport = transport.get();
    started = HasMachines(options_.medium)
                  ? StartInMachine(std::move(transport), rank)
                  : runtime::StartWorkerEngine(std::move(transport), WorkerOptions(rank), log_);
  }
  if (!started.ok()) return started.status();
  worker.engine = std::move(started->engine);
  worker.standing = started->standing;
  return worker;
}

Result<runtime::StartedEngine> Cluster::StartWorker(const runtime::WorkerEngineOptions& options) {
  return runtime::StartWorkerEngine(std::make_unique<SharedTransport>(transport_), options, log_);
}

Status Cluster::StartWorkers() {
  std::vector<std::future<Result<Worker>>> starting;
  for (uint32_t rank = 0; rank < options_.workers; ++rank) {
    starting.push_back(std::async(std::launch::async, [this, rank] { return MakeWorker(rank); }));
  }
  std::vector<Worker> started;
  Status outcome;
  for (auto& future : starting) {
    Result<Worker> worker = future.get();
    if (!worker.ok()) {
      outcome = worker.status();
      continue;
    }
    started.push_back(std::move(worker).value());
  }
  if (!outcome.ok()) return outcome;
  // Keeps the tickets of the last generation, to count their ends.
  for (size_t i = 0; i < workers_.size(); ++i) started[i].tickets = workers_[i].tickets;
  workers_ = std::move(started);
  return Status::Ok();
}

Status Cluster::Start() {
  Status services = StartServices();
  return services.ok() ? StartWorkers() : services;
}

TicketRef Cluster::Submit(uint32_t worker, protocol::Operation operation,
                          std::function<void()> on_end) {
  auto ticket = std::make_shared<Ticket>();
  workers_[worker].tickets.push_back(ticket);
  workers_[worker].engine->Submit(std::move(operation),
                                  [ticket, on_end = std::move(on_end)](protocol::Outcome outcome) {
                                    if (on_end) on_end();
                                    ticket->Complete(std::move(outcome));
                                  });
  return ticket;
}

// Lets all leave at once: the carrier of a machine leaves when the other ranks of the machine have.
void Cluster::LeaveAll() {
  std::vector<std::future<bool>> leaving;
  for (Worker& worker : workers_) {
    if (worker.engine == nullptr) continue;  // was killed
    leaving.push_back(
        std::async(std::launch::async, [engine = worker.engine.get()] { return engine->Leave(); }));
  }
  for (auto& one : leaving) EXPECT_TRUE(one.get());
}

void Cluster::LeaveInOrder() {
  LeaveAll();
  for (Worker& worker : workers_) {
    if (worker.engine == nullptr) continue;  // was killed
    for (const TicketRef& ticket : worker.tickets) EXPECT_EQ(ticket->completions(), 1);
  }
  workers_.clear();
  if (coordinator_running_ == nullptr) return;  // a job without services
  Status coordinator = CoordinatorEnd();
  EXPECT_TRUE(coordinator.ok()) << coordinator.ToString();
  for (uint32_t i = 0; i < servers_.size(); ++i) {
    if (servers_[i]->running == nullptr) continue;  // was killed
    Status server = ServerEnd(i);
    EXPECT_TRUE(server.ok()) << server.ToString();
  }
}

Status Cluster::NextGeneration() {
  LeaveAll();
  return StartWorkers();
}

// Runs `work` on the thread of a worker without connections: an operation that cannot begin ends
// there.
void Cluster::RunOnThreadOf(uint32_t worker, std::function<void()> work) {
  workers_[worker].engine->Submit(protocol::Operation(),
                                  [work = std::move(work)](const protocol::Outcome&) { work(); });
}

// Kills a worker. Nobody hears the engine's own attempt to leave.
void Cluster::KillWorker(uint32_t worker) {
  if (workers_[worker].transport == nullptr) {
    RunOnThreadOf(worker, [] { throw std::bad_alloc(); });
  } else {
    workers_[worker].transport->StopLoops();
  }
  workers_[worker].engine.reset();
}

// Kills a server. A server that stops says nothing; its connections close.
void Cluster::KillServer(uint32_t server) {
  servers_[server]->process->Stop({StatusCode::kShutdown, "killed"});
  EXPECT_EQ(ServerEnd(server).code(), StatusCode::kShutdown);
  servers_[server]->running.reset();
  servers_[server]->process.reset();
}

void Cluster::KillCoordinator() {
  coordinator_transport_->StopLoops();
  EXPECT_NE(CoordinatorEnd().code(), StatusCode::kDeadlineExceeded);
  coordinator_running_.reset();
  coordinator_.reset();
}

Status Cluster::RestartCoordinator() { return StartCoordinator(coordinator_address_); }

void Cluster::RestartServer() { StartServer(ServerOptions()); }

void Cluster::FreezeWorker(uint32_t worker, const std::shared_ptr<Gate>& gate) {
  if (workers_[worker].transport == nullptr) {
    return RunOnThreadOf(worker, [gate] { gate->Wait(); });
  }
  workers_[worker].transport->Freeze(gate);
}

void Cluster::FreezeServer(uint32_t server, const std::shared_ptr<Gate>& gate) {
  servers_[server]->transport.Freeze(gate);
}

void Cluster::FreezeCoordinator(const std::shared_ptr<Gate>& gate) {
  coordinator_transport_->PostTo(0, [gate] { gate->Wait(); });
}

// The server's first loop is the loop of its control connection.
void Cluster::FreezeServerControl(uint32_t server, const std::shared_ptr<Gate>& gate) {
  servers_[server]->transport.PostTo(0, [gate] { gate->Wait(); });
}

void Cluster::FreezeLane(uint32_t worker, uint32_t lane, const std::shared_ptr<Gate>& gate) {
  workers_[worker].transport->PostTo(lane, [gate] { gate->Wait(); });
}

void Cluster::BreakLane(uint32_t worker, uint32_t lane) {
  workers_[worker].transport->PostTo(lane, [] { throw std::bad_alloc(); });
}

// The server's first loop is the loop of its control connection.
void Cluster::BreakShard(uint32_t server, uint32_t shard) {
  servers_[server]->transport.PostTo(shard + 1, [] { throw std::bad_alloc(); });
}

// A worker knows a server by the address that the server announces.
void Cluster::Cut(uint32_t worker, uint32_t server) {
  workers_[worker].transport->Cut(servers_[server]->address);
  workers_[worker].transport->Cut(servers_[server]->shared_address);
}

void Cluster::CutControl(uint32_t worker) {
  if (workers_[worker].transport == nullptr) return;  // no connection
  workers_[worker].transport->Cut(coordinator_address_);
  auto done = std::make_shared<Gate>();
  workers_[worker].transport->PostTo(0, [done] { done->Open(); });  // the loop of the connection
  EXPECT_TRUE(done->Wait());
}

void Cluster::Block(uint32_t worker, uint32_t server) {
  workers_[worker].transport->Block(servers_[server]->address);
  workers_[worker].transport->Block(servers_[server]->shared_address);
}

}  // namespace byteps::cluster
