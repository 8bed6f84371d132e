// A whole job in one process, with the real runtime: a coordinator, servers and workers, each with
// its own threads, over TCP on the loopback interface, with TLS or without, or in memory. It can
// also have workers alone, which share memory as the workers of one machine without servers do; or
// both: the workers of each machine are one member of a job over TCP.
//
// Used from the test's thread. Every wait ends after kPatience at the latest, with a failure.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/log.h"
#include "src/base/machine_layout.h"
#include "src/base/thread_annotations.h"
#include "src/runtime/coordinator/coordinator_process.h"
#include "src/runtime/server/returning_server.h"
#include "src/runtime/worker/engine.h"
#include "src/transport/transport.h"
#include "tests/cluster/shared_transport.h"

namespace byteps::cluster {

// kShared: the workers reach the servers through shared memory, and the coordinator through TCP.
// kRdma: connections for data go on over the stand-in for libibverbs.
// kMachines: the ranks of a machine follow one another; kInTurn: the machines get the ranks in
// turn.
enum class Medium : uint8_t { kTcp, kTls, kShared, kRdma, kInproc, kWindow, kMachines, kInTurn };
inline bool HasMachines(Medium medium) {
  return medium == Medium::kMachines || medium == Medium::kInTurn;
}
inline const char* NameOf(Medium medium) {
  switch (medium) {
    case Medium::kTcp: return "Tcp";
    case Medium::kTls: return "Tls";
    case Medium::kShared: return "Shared";
    case Medium::kRdma: return "Rdma";
    case Medium::kWindow: return "Window";
    case Medium::kMachines: return "Machines";
    case Medium::kInTurn: return "InTurn";
    case Medium::kInproc: break;
  }
  return "Inproc";
}

// The kind of job with which a test is played.
struct Setting {
  Medium medium = Medium::kTcp;
  std::vector<uint32_t> lanes = {1};  // ClusterOptions::lanes
};
inline const Setting kSettings[] = {{Medium::kTcp, {1}},
                                    {Medium::kTls, {1}},
                                    {Medium::kShared, {1}},
                                    {Medium::kInproc, {1}},
                                    {Medium::kTcp, {2, 1, 3}}};
inline std::string NameOf(const Setting& setting) {
  return std::string(NameOf(setting.medium)) + (setting.lanes.size() > 1 ? "Lanes" : "");
}

struct ClusterOptions {
  Medium medium = Medium::kTcp;
  uint32_t workers = 2;
  uint32_t machine_ranks = 2;  // of each machine, if there are machines; the last may have fewer
  std::vector<uint32_t> machine_sizes;  // the same, if they differ in another way
  uint32_t servers = 1;
  uint32_t shards = 1;
  uint32_t piece_bytes_max = 32768;
  uint64_t credit_bytes = 0;          // 0: measured
  bool same_bits = false;             // as in wire::View
  uint32_t sum_group = 1;             // the same
  std::vector<uint32_t> lanes = {1};  // of the first workers; each other worker has the last number
  Duration start_timeout = kPatience;
  Duration report_every = seconds(5);
  uint32_t min_workers = 0;
  // The limits of silence are long by default, because busy machines and sanitizers are slow.
  Duration silence_evict = kPatience;
  Duration silence_end = kPatience;
  Duration grace = milliseconds(100);  // for one closed connection
  // The time until a worker reports a server as unreachable whose connection broke.
  Duration unreachable_after = seconds(1);
  Duration alive_every = milliseconds(200);  // of workers
  bool window_beats = false;                 // window ranks beat as often
  Duration coordinator_patience = kPatience;
  Duration server_patience = kPatience;
  Duration operation_limit{};
  uint32_t comebacks = 0;  // the comebacks of a server that was left behind
  // Like the options of WorkerEngineOptions with the same names.
  Duration leave_limit = seconds(4);
  Duration end_limit = seconds(10);
  // The codecs of servers and workers, and the stages between workers' memory and the exchange
  // (WorkerOptions).
  const protocol::Codecs* codecs = &protocol::Codecs::None();
  protocol::MakePiecePaths paths;
  int exit_notices = -1;  // the reading end of a launcher's pipe
};

// Like WorkerOptions::overdue_after, but short: the job reports a difference between old specs
// after one or two of these.
inline constexpr Duration kOverdueAfter = milliseconds(100);

// The process numbers that members announce.
inline constexpr uint32_t kFirstWorkerProcess = 1000;
inline constexpr uint32_t kFirstServerProcess = 2000;

// An operation that was submitted. Thread-safe; shared by the test and the engine's callback, and
// destroyed with the last of the two.
class Ticket {
 public:
  // Blocks until the operation has ended; returns null if it does not end.
  const protocol::Outcome* Wait();
  Status WaitStatus();
  int completions();
  void Complete(protocol::Outcome outcome);

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  int completions_ BYTEPS_GUARDED_BY(mutex_) = 0;
  protocol::Outcome outcome_ BYTEPS_GUARDED_BY(mutex_);
};

using TicketRef = std::shared_ptr<Ticket>;

// A thread that runs a process and keeps its result.
class RunningProcess {
 public:
  explicit RunningProcess(std::function<Status()> run);
  ~RunningProcess();
  // Returns the result; kDeadlineExceeded if the process is still running after kPatience.
  Status WaitForEnd();

 private:
  std::promise<Status> promise_;
  std::shared_future<Status> ended_;
  std::thread thread_;
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  // Ends by force what is left, and checks that each operation ended exactly once.
  ~Cluster();

  // Lets all members join. The caller checks the result: ASSERT_TRUE(cluster.Start().ok()).
  Status Start();
  // The parts of Start.
  Status StartServices();
  Status StartWorkers();
  void StartServer(const runtime::ServerProcessOptions& options);

  runtime::WorkerEngineOptions WorkerOptions(uint32_t rank) const;
  runtime::ServerProcessOptions ServerOptions() const;
  // Starts a worker that the cluster does not keep.
  Result<runtime::StartedEngine> StartWorker(const runtime::WorkerEngineOptions& options);

  const ClusterOptions& options() const { return options_; }
  const std::string& coordinator_address() const { return coordinator_address_; }
  const std::string& server_address(size_t server) const { return servers_[server]->address; }
  runtime::JobIdentity identity() const { return {"cluster-test", "a secret", 1}; }
  std::shared_ptr<transport::Transport> transport() { return transport_; }
  Log& log() { return log_; }
  runtime::Engine& engine(uint32_t worker) { return *workers_[worker].engine; }
  const runtime::Standing& standing(uint32_t worker) const { return workers_[worker].standing; }

  // Calls `on_end` on the engine's thread right before the ticket is complete.
  TicketRef Submit(uint32_t worker, protocol::Operation operation,
                   std::function<void()> on_end = nullptr);

  // Lets all workers leave; the job must end in order.
  void LeaveInOrder();
  // Lets all workers leave, and new workers of the same ranks join the same servers; then destroys
  // the old workers.
  Status NextGeneration();

  void KillWorker(uint32_t worker);
  void KillServer(uint32_t server);
  void KillCoordinator();
  // Starts another process at the coordinator's address.
  Status RestartCoordinator();
  // Starts another process that joins the running job.
  void RestartServer();

  // Make a process stand still, like a stopped process, until the gate opens.
  void FreezeWorker(uint32_t worker, const std::shared_ptr<Gate>& gate);
  void FreezeServer(uint32_t server, const std::shared_ptr<Gate>& gate);
  void FreezeCoordinator(const std::shared_ptr<Gate>& gate);
  // Makes the server's control connection stand still; its shards go on.
  void FreezeServerControl(uint32_t server, const std::shared_ptr<Gate>& gate);
  // Makes one lane of a worker stand still; the first lane has the thread of the engine.
  void FreezeLane(uint32_t worker, uint32_t lane, const std::shared_ptr<Gate>& gate);
  // Throws something on the thread of a lane.
  void BreakLane(uint32_t worker, uint32_t lane);
  // Throws something on the thread of a shard, which is named by its number in the server.
  void BreakShard(uint32_t server, uint32_t shard);

  // Breaks the connections between the two.
  void Cut(uint32_t worker, uint32_t server);
  // Breaks the connection of a worker to the coordinator; it is closed when this returns.
  void CutControl(uint32_t worker);
  // Breaks the connections between the two, and refuses new ones from now on.
  void Block(uint32_t worker, uint32_t server);

  Status CoordinatorEnd() { return coordinator_running_->WaitForEnd(); }
  Status ServerEnd(uint32_t server) { return servers_[server]->running->WaitForEnd(); }

 private:
  struct Server {
    explicit Server(std::shared_ptr<transport::Transport> shared) : transport(std::move(shared)) {}
    SharedTransport transport;
    std::unique_ptr<runtime::ReturningServer> process;
    std::string address;
    std::string shared_address;  // in its first life
    std::unique_ptr<RunningProcess> running;
  };
  struct Worker {
    SharedTransport* transport = nullptr;  // owned by the engine
    std::unique_ptr<runtime::Engine> engine;
    runtime::Standing standing;
    std::vector<TicketRef> tickets;
  };

  Status StartCoordinator(const std::string& address);
  void LeaveAll();
  std::string DeviceAddress() const;
  std::string ListenAddress() const;
  Result<Worker> MakeWorker(uint32_t rank);
  Result<runtime::StartedEngine> StartLocal(uint32_t rank);
  MachineLayout Layout() const;
  std::pair<uint32_t, uint32_t> PlaceOf(uint32_t rank) const;  // machine and number on it
  Result<runtime::StartedEngine> StartInMachine(std::unique_ptr<transport::Transport> transport,
                                                uint32_t rank);
  void RunOnThreadOf(uint32_t worker, std::function<void()> work);

  const ClusterOptions options_;
  Log log_;
  const std::shared_ptr<transport::Transport> transport_;  // shared by all processes
  std::unique_ptr<SharedTransport> coordinator_transport_;
  std::unique_ptr<runtime::CoordinatorProcess> coordinator_;
  std::string coordinator_address_;
  std::unique_ptr<RunningProcess> coordinator_running_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<Worker> workers_;
};

}  // namespace byteps::cluster
