// A whole job in one process: the production state machines on a virtual network.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/network.h"
#include "src/protocol/control/coordinator.h"
#include "src/protocol/shard.h"
#include "src/protocol/worker.h"

namespace byteps::sim {

struct ServerPlace {
  HostId host = 0;
  uint32_t shards = 1;
};

// At most one of them is made; tests only.
struct Mistakes {
  protocol::ShardMistake shard = protocol::ShardMistake::kNone;
  protocol::WorkerMistake worker = protocol::WorkerMistake::kNone;
  protocol::CoordinatorMistake coordinator = protocol::CoordinatorMistake::kNone;
  protocol::MembershipMistake membership = protocol::MembershipMistake::kNone;
};

struct ClusterOptions {
  NetworkOptions network;
  std::vector<double> host_links;  // bytes per second
  std::vector<HostId> worker_hosts;
  std::vector<ServerPlace> servers;
  HostId coordinator_host = 0;
  uint32_t piece_bytes_max = 32768;
  uint64_t credit_bytes = 0;  // 0: as measured
  // 0: members are not watched by their silence.
  Duration heartbeat = Duration::zero();
  uint32_t min_workers = 0;  // 0: all; losing one ends the job
  Mistakes mistakes;
  protocol::Arithmetic* arithmetic = nullptr;
};

// What one worker's operation came to; completions must be 1 for every accepted operation.
struct Completion {
  int completions = 0;
  protocol::Outcome outcome;
  Time at{};
};

class CoordinatorNode;
class ServerNode;
class WorkerNode;

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  ~Cluster();

  Network& network() { return network_; }
  uint32_t worker_count() const { return static_cast<uint32_t>(options_.worker_hosts.size()); }

  // Everybody connects and joins.
  void Start();

  // Submits on `worker` at time `when` (or as soon as it has a view); `done` is told how it ended.
  void Submit(uint32_t worker, Time when, protocol::Operation operation);
  const std::map<protocol::OperationId, Completion>& completions(uint32_t worker) const;
  // Submissions that were refused at once, with the reason.
  const std::map<protocol::OperationId, Status>& refusals(uint32_t worker) const;
  // Called after each completion.
  std::function<void(uint32_t worker, protocol::OperationId id)> on_complete;

  void Leave(uint32_t worker);
  void KillWorker(uint32_t worker);
  void KillServer(uint32_t server);
  void KillCoordinator();
  // Another process takes the place.
  void RestartServer(uint32_t server);
  void RestartCoordinator();
  void CutDataConnection(uint32_t worker, uint32_t shard);
  // One direction carries nothing, and nobody is told.
  void CutOneWay(uint32_t worker, uint32_t shard, bool from_worker, bool cut);
  void Partition(const std::vector<HostId>& apart);
  void SetJitter(uint32_t worker, uint32_t shard, Duration jitter_max);
  // Cuts the connection of a living member to the coordinator.
  void CutWorkerControl(uint32_t worker);
  void CutServerControl(uint32_t server);
  void FreezeWorker(uint32_t worker, bool frozen);
  void FreezeServer(uint32_t server, bool frozen);
  void FreezeCoordinator(bool frozen);
  // The launcher has seen a process of this job end.
  void TellExit(Role role, uint32_t index, uint64_t incarnation);
  uint64_t IncarnationOf(Role role, uint32_t index) const;
  // A user's deadline for everything that is open.
  void AbortOpen(uint32_t worker);
  void StepClock(uint32_t node, Duration by);  // workers, then servers, then the coordinator
  bool alive(uint32_t worker) const;
  // It has been told that the others went on without it.
  bool evicted(uint32_t worker) const;
  uint64_t repeated_answers() const;
  // What everybody knows of views, for checks.
  std::vector<const wire::View*> views() const;
  size_t copies_held() const;

  // Runs until nothing happens any more or `until` is reached; false in the latter case.
  bool RunUntilIdle(Time until);

  // A line per violation seen by the nodes themselves (a protocol error between correct peers).
  const std::vector<std::string>& violations() const { return violations_; }
  std::optional<Status> coordinator_outcome() const;
  // When an operation ended last.
  Time last_completion() const { return last_completion_; }
  size_t verdicts_held() const;
  size_t rounds_open() const;
  // The bytes of pieces dealt to each shard can be told from pushes.
  const std::vector<uint64_t>& pushed_bytes_by_shard() const { return pushed_bytes_by_shard_; }
  void set_log(std::function<void(const std::string&)> log) { log_ = std::move(log); }

 private:
  friend class CoordinatorNode;
  friend class MemberControl;
  friend class ServerNode;
  friend class ShardNode;
  friend class WorkerNode;

  bool logs() const { return log_ != nullptr; }
  // Without what is said again and again.
  void Log(const std::string& line) {
    bool noise = line.ends_with(": alive") || line.find(": want of") != std::string::npos;
    if (log_ && !noise) log_(line);
  }

  // A view came into force somewhere: no other one may have its epoch.
  void OnViewInForce(const wire::View& view);
  uint64_t NextIncarnation() { return ++incarnations_; }

  ClusterOptions options_;
  Network network_;
  uint64_t incarnations_ = 0;
  std::unique_ptr<CoordinatorNode> coordinator_;
  // Processes of which another one took the place; events may still name them.
  std::vector<std::unique_ptr<CoordinatorNode>> old_coordinators_;
  std::vector<std::unique_ptr<ServerNode>> old_servers_;
  std::vector<ShardId> first_shards_;  // by server
  std::vector<std::unique_ptr<ServerNode>> servers_;
  std::vector<std::unique_ptr<WorkerNode>> workers_;
  std::vector<std::string> violations_;
  std::map<uint64_t, wire::View> views_;  // by epoch
  std::vector<uint64_t> pushed_bytes_by_shard_;
  Time last_completion_{};
  std::function<void(const std::string&)> log_;
};

}  // namespace byteps::sim
