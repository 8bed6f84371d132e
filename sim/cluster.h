// A whole job in one process: the production state machines on a virtual network.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/cluster_faults.h"
#include "sim/cluster_options.h"
#include "sim/network.h"
#include "sim/processes.h"
#include "src/protocol/control/coordinator.h"
#include "src/protocol/shard/shard.h"
#include "src/protocol/worker/worker.h"

namespace byteps::sim {

class CoordinatorNode;
class MemberControl;
class ServerNode;
class SiblingNode;
class WorkerNode;

// A worker is a contributor: its carrier, process 0, and its siblings. What takes a `process` is
// about that one of the worker `a`, or of the node if this is a worker.
class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  ~Cluster();

  Network& network() { return network_; }
  uint32_t worker_count() const { return static_cast<uint32_t>(options_.worker_hosts.size()); }
  // Those with which the job begins.
  uint32_t first_workers() const { return worker_count() - options_.late_workers; }
  uint32_t server_count() const { return static_cast<uint32_t>(options_.servers.size()); }
  const Processes& processes() const { return processes_; }
  // What goes wrong.
  ClusterFaults& faults() { return faults_; }

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
  // All its processes, one after the other, this one first.
  void Leave(uint32_t worker, uint32_t process = 0);
  uint64_t IncarnationOf(Role role, uint32_t index, uint32_t process = 0) const;
  // Ranks are those of the generation; the number of its process (processes.h), or kNobody.
  uint32_t ProcessAt(uint32_t reader, uint32_t rank) const;
  uint32_t WorkerOf(uint64_t incarnation) const;
  ShardId FirstShard(uint32_t server) const { return first_shards_[server]; }
  // A user's deadline for everything that is open.
  void AbortOpen(uint32_t worker);
  bool alive(uint32_t worker) const;
  // It has been told that the others went on without it.
  bool evicted(uint32_t worker) const;
  bool any_evicted(uint32_t worker) const;  // of its processes
  // A sibling that lives and has not heard that its contributor is gone, in words.
  std::optional<std::string> ForgottenSibling() const;
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
  friend class ClusterFaults;
  friend class CoordinatorNode;
  friend class MemberControl;
  friend class ServerNode;
  friend class ShardNode;
  friend class SiblingNode;
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
  const MemberControl* ControlOf(uint32_t node, uint32_t process) const;
  void StartProcesses(uint32_t worker);
  // The one that this node finds at the address that it knows.
  CoordinatorNode* CoordinatorOf(uint32_t node) const;
  // A view came into force at a member: no other one that lives may hold another one of its epoch.
  void OnViewInForce(uint64_t incarnation, const wire::View& view);
  // A view names all processes of a contributor or none, but for those that have left.
  void CheckWhole(const wire::View& view);
  // The carrier is told that it may go: all others have left.
  void CheckMayGo(uint32_t worker);
  bool Lives(uint64_t incarnation) const;
  SiblingNode& Sibling(uint32_t worker, uint32_t process) const {
    return *siblings_[worker][process - 1];
  }
  // One process of the worker after the other does this.
  void OneByOne(uint32_t worker, uint32_t first, const std::function<void(uint32_t)>& what);
  uint64_t NextIncarnation() { return ++incarnations_; }

  ClusterOptions options_;
  Processes processes_;
  Network network_;
  uint64_t incarnations_ = 0;
  std::unique_ptr<CoordinatorNode> coordinator_;
  uint64_t to_newer_ = 0;  // nodes that find it while an older one lives, too
  // Of those before it events may still speak.
  std::vector<std::unique_ptr<CoordinatorNode>> old_coordinators_;
  std::vector<ShardId> first_shards_;  // by server
  std::vector<std::unique_ptr<ServerNode>> servers_;
  std::vector<std::unique_ptr<WorkerNode>> workers_;
  std::vector<std::vector<std::unique_ptr<SiblingNode>>> siblings_;  // by worker, from process 1
  std::map<uint64_t, uint32_t> process_of_;                          // by incarnation
  std::vector<std::string> violations_;
  std::map<uint64_t, std::vector<std::pair<uint64_t, wire::View>>> views_;  // by epoch; who
  wire::View latest_;
  std::vector<uint64_t> pushed_bytes_by_shard_;
  Time last_completion_{};
  uint64_t events_at_once_ = 0;
  std::function<void(const std::string&)> log_;
  ClusterFaults faults_{*this};
};

}  // namespace byteps::sim
