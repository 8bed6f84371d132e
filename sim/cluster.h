// A whole job in one process: the production state machines on a virtual network.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/network.h"
#include "src/protocol/control/control_mistakes_for_test.h"
#include "src/protocol/control/coordinator.h"
#include "src/protocol/shard/shard.h"
#include "src/protocol/shard/shard_mistakes_for_test.h"
#include "src/protocol/worker/worker.h"
#include "src/protocol/worker/worker_mistakes_for_test.h"

namespace byteps::sim {

inline constexpr uint32_t kNobody = UINT32_MAX;

// What the protocol does just now; faults wait for these.
enum class Moment : uint8_t {
  kBegin,           // of the job
  kPushArrived,     // at a shard
  kVerdictArrived,  // the same
  kResyncArrived,
  kAbortArrived,
  kAnswerArrived,  // at a worker, which has not acknowledged it
  kStableArrived,  // the same: news of it
  kHandedOver,     // an operation of the worker has ended
  kProposed,       // to this worker or server
  kApplied,        // this worker or server has a newer view
  kReported,       // it tells a coordinator that was restarted what it knows
};
inline constexpr int kMomentCount = 11;

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
  uint32_t lanes = 1;         // of each worker
  // What a worker's front and lanes tell each other is late by this much at most.
  Duration mail_delay_max = Duration::zero();
  // 0: members are not watched by their silence.
  Duration heartbeat = Duration::zero();
  uint32_t min_workers = 0;                    // 0: all; losing one ends the job
  bool strict = false;                         // two coordinators may live at once
  uint64_t rounds_begin = 0;                   // rounds count from after this
  uint32_t late_workers = 0;                   // the last of worker_hosts: they come later
  Duration restart_pause = milliseconds(100);  // of a server that was left behind
  std::vector<std::vector<uint32_t>> groups;   // of ranks: process sets 1, 2, ... of every worker
  Duration overdue_after = protocol::WorkerOptions().overdue_after;
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
class MemberControl;
class ServerNode;
class WorkerNode;

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  ~Cluster();

  Network& network() { return network_; }
  uint32_t worker_count() const { return static_cast<uint32_t>(options_.worker_hosts.size()); }
  // Those with which the job begins.
  uint32_t first_workers() const { return worker_count() - options_.late_workers; }
  uint32_t server_count() const { return static_cast<uint32_t>(options_.servers.size()); }

  // Everybody connects and joins; late workers do not.
  void Start();
  void Join(uint32_t worker);

  // Submits on `worker` at time `when` (or as soon as it has a view); `done` is told how it ended.
  void Submit(uint32_t worker, Time when, protocol::Operation operation);
  const std::map<protocol::OperationId, Completion>& completions(uint32_t worker) const;
  // Submissions that were refused at once, with the reason.
  const std::map<protocol::OperationId, Status>& refusals(uint32_t worker) const;
  // Called after each completion.
  std::function<void(uint32_t worker, protocol::OperationId id)> on_complete;
  // A worker that waited at a sync point, or to be let in, goes on in this generation.
  std::function<void(uint32_t worker, uint32_t generation)> on_go_on;
  // With those that have part in it, or kNobody.
  std::function<void(Moment moment, uint32_t worker, uint32_t server)> on_moment;

  // From now on the worker's user begins nothing before all that is open has ended, and says so.
  // The next Submit ends that.
  void Stick(uint32_t worker);
  // The worker is between operations.
  void Sync(uint32_t worker);
  void Leave(uint32_t worker);
  void KillWorker(uint32_t worker);
  void KillServer(uint32_t server);
  void KillCoordinator();
  // Another process takes the place.
  void RestartServer(uint32_t server);
  void RestartCoordinator();
  // Two coordinators live at once. From now on the nodes (workers, then servers) whose bit is set
  // find the newer one, the others the older one.
  void Rival(uint64_t nodes);
  void EndRivals();  // the newer one is left
  void CutDataConnection(uint32_t worker, uint32_t shard);
  // One direction carries nothing, and nobody is told.
  void CutOneWay(uint32_t worker, uint32_t shard, bool from_worker, bool cut);
  void Partition(const std::vector<HostId>& apart);
  void SetJitter(uint32_t worker, uint32_t shard, Duration jitter_max);
  // Cuts the connection of a living member to the coordinator.
  void CutControl(uint32_t node, Duration lasts);
  // What it hears of the coordinator is late.
  void LagControl(uint32_t node, Duration jitter_max);
  void SlowLink(uint32_t node, double factor);
  // Some member tells the coordinator that this one talks nonsense.
  void Accuse(Role role, uint32_t index);
  void FreezeWorker(uint32_t worker, bool frozen);
  void FreezeServer(uint32_t server, bool frozen);
  void FreezeCoordinator(bool frozen);
  // The launcher has seen a process of this job end.
  void TellExit(Role role, uint32_t index, uint64_t incarnation);
  uint64_t IncarnationOf(Role role, uint32_t index) const;
  // Slots are those of a generation; kNobody: of none of its workers.
  uint32_t WorkerAt(uint32_t reader, Slot slot) const;
  uint32_t WorkerOf(uint64_t incarnation) const;
  ShardId FirstShard(uint32_t server) const { return first_shards_[server]; }
  // A user's deadline for everything that is open.
  void AbortOpen(uint32_t worker);
  void StepClock(uint32_t node, Duration by);  // workers, then servers, then the coordinator
  bool alive(uint32_t worker) const;
  // It has been told that the others went on without it.
  bool evicted(uint32_t worker) const;
  // In the newest view that is in force anywhere, or it has left in order: what it accepts is
  // what all others must accept.
  bool agrees(uint32_t worker) const;
  HostId HostOf(uint32_t node) const;
  uint64_t repeated_answers() const;
  // What everybody knows of views, for checks.
  std::vector<const wire::View*> views() const;
  size_t copies_held() const;

  // Runs one event; false when there is none, or when time does not get on.
  bool Step();
  // Runs until nothing happens any more or `until` is reached; false in the latter case.
  bool RunUntilIdle(Time until);

  // A line per violation seen by the nodes themselves (a protocol error between correct peers).
  const std::vector<std::string>& violations() const { return violations_; }
  // Of the present one, or of an earlier one that has ended the job.
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

  void Note(Moment moment, uint32_t worker, uint32_t server) {
    if (on_moment) on_moment(moment, worker, server);
  }
  const MemberControl* ControlOf(uint32_t node) const;
  // The one that this node finds at the address that it knows.
  CoordinatorNode* CoordinatorOf(uint32_t node) const;
  // A view came into force at a member: no other one that lives may hold another one of its epoch.
  void OnViewInForce(uint64_t incarnation, const wire::View& view);
  bool Lives(uint64_t incarnation) const;
  uint64_t NextIncarnation() { return ++incarnations_; }

  ClusterOptions options_;
  Network network_;
  uint64_t incarnations_ = 0;
  std::unique_ptr<CoordinatorNode> coordinator_;
  uint64_t to_newer_ = 0;  // nodes that find it while an older one lives, too
  // Processes of which another one took the place; events may still name them.
  std::vector<std::unique_ptr<CoordinatorNode>> old_coordinators_;
  std::vector<std::unique_ptr<ServerNode>> old_servers_;
  std::vector<ShardId> first_shards_;  // by server
  std::vector<std::unique_ptr<ServerNode>> servers_;
  std::vector<std::unique_ptr<WorkerNode>> workers_;
  std::vector<std::string> violations_;
  std::map<uint64_t, std::vector<std::pair<uint64_t, wire::View>>> views_;  // by epoch; who
  wire::View latest_;
  std::vector<wire::Suspect> exits_;  // that the launcher has seen
  std::vector<uint64_t> pushed_bytes_by_shard_;
  Time last_completion_{};
  uint64_t events_at_once_ = 0;
  std::function<void(const std::string&)> log_;
};

}  // namespace byteps::sim
