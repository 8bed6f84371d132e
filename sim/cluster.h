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
#include "src/protocol/worker/exchange/operation.h"

namespace byteps::sim {

class CoordinatorNode;
class MemberControl;
class ServerNode;
class SiblingNode;
class WorkerNode;

// A worker is a contributor: its carrier, process 0, and its siblings. A parameter `process` names
// one of the worker's processes, or of the node's if the node is a worker.
class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);
  ~Cluster();

  Network& network() { return network_; }
  uint32_t worker_count() const { return static_cast<uint32_t>(options_.worker_hosts.size()); }
  // Returns the number of workers with which the job begins.
  uint32_t first_workers() const { return worker_count() - options_.late_workers; }
  uint32_t server_count() const { return static_cast<uint32_t>(options_.servers.size()); }
  const Processes& processes() const { return processes_; }
  // Returns the faults of the job.
  ClusterFaults& faults() { return faults_; }

  // Makes all processes connect and join, except for late workers.
  void Start();
  void Join(uint32_t worker);

  // Submits on `worker` at time `when`, or as soon as it has a view.
  void Submit(uint32_t worker, Time when, protocol::Operation operation);
  const std::map<protocol::OperationId, Completion>& completions(uint32_t worker) const;
  // Returns the submissions that were refused at once, with the reason.
  const std::map<protocol::OperationId, Status>& refusals(uint32_t worker) const;
  // The cluster calls it after each completion.
  std::function<void(uint32_t worker, protocol::OperationId id)> on_complete;
  // The cluster calls it when a worker that waited at a sync point, or to be let in, goes on in
  // this generation.
  std::function<void(uint32_t worker, uint32_t generation)> on_go_on;
  // The cluster calls it at each moment with the worker and the server that take part in it, or
  // kNobody.
  std::function<void(Moment moment, uint32_t worker, uint32_t server)> on_moment;

  // Makes the worker's user begin nothing before all open operations have ended, and say so. The
  // next Submit ends that.
  void Stick(uint32_t worker);
  // Takes the worker to a sync point. REQUIRES: it is between operations.
  void Sync(uint32_t worker);
  // Makes all processes of the worker leave, one after the other, beginning with this one.
  void Leave(uint32_t worker, uint32_t process = 0);
  uint64_t IncarnationOf(Role role, uint32_t index, uint32_t process = 0) const;
  // Returns the number of the process (processes.h) that has this rank in the generation of
  // `reader`, or kNobody.
  uint32_t ProcessAt(uint32_t reader, uint32_t rank) const;
  uint32_t WorkerOf(uint64_t incarnation) const;
  ShardId FirstShard(uint32_t server) const { return first_shards_[server]; }
  // Aborts all open operations of the worker, as a user's deadline would.
  void AbortOpen(uint32_t worker);
  bool alive(uint32_t worker) const;
  // Returns whether the worker was told that the others went on without it.
  bool evicted(uint32_t worker) const;
  bool any_evicted(uint32_t worker) const;  // the same for any of its processes
  // Names a sibling that lives and does not know that its contributor is gone; nothing if there is
  // none.
  std::optional<std::string> ForgottenSibling() const;
  // Returns whether the worker is in the newest view that is in force anywhere, or has left in
  // order. All others must accept the results that such a worker accepts.
  bool agrees(uint32_t worker) const;
  HostId HostOf(uint32_t node) const;
  uint64_t repeated_answers() const;
  // Returns the views of all members, for checks.
  std::vector<const wire::View*> views() const;
  size_t copies_held() const;

  // Runs one event. Returns false if there is none, or if time stands still.
  bool Step();
  // Runs until there are no more events, or time reaches `until`; returns false in the latter case.
  bool RunUntilIdle(Time until);

  // Returns a line for each violation that the nodes themselves saw (a protocol error between
  // correct peers).
  const std::vector<std::string>& violations() const { return violations_; }
  // Returns the outcome of the present coordinator, or of an earlier one that has ended the job.
  std::optional<Status> coordinator_outcome() const;
  // Returns the time when the last operation ended.
  Time last_completion() const { return last_completion_; }
  size_t verdicts_held() const;
  size_t rounds_open() const;
  // Returns the bytes of pieces that were pushed to each shard, which shows how pieces were dealt.
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
  // Logs a line, unless it is one that repeats all the time.
  void Log(const std::string& line) {
    bool noise = line.ends_with(": alive") || line.find(": want of") != std::string::npos;
    if (log_ && !noise) log_(line);
  }

  void Note(Moment moment, uint32_t worker, uint32_t server) {
    if (on_moment) on_moment(moment, worker, server);
  }
  const MemberControl* ControlOf(uint32_t node, uint32_t process) const;
  void StartProcesses(uint32_t worker);
  // Returns the coordinator that this node finds at the address that it knows.
  CoordinatorNode* CoordinatorOf(uint32_t node) const;
  // Notes that a view came into force at a member. Checks that no other living member has another
  // view of its epoch.
  void OnViewInForce(uint64_t incarnation, const wire::View& view);
  // Checks that a view names all processes of a contributor or none, except for processes that have
  // left.
  void CheckWhole(const wire::View& view);
  // Checks that all other processes have left when the carrier is told that it may go.
  void CheckMayGo(uint32_t worker);
  bool Lives(uint64_t incarnation) const;
  SiblingNode& Sibling(uint32_t worker, uint32_t process) const {
    return *siblings_[worker][process - 1];
  }
  // Calls `what` for one process of the worker after the other.
  void OneByOne(uint32_t worker, uint32_t first, const std::function<void(uint32_t)>& what);
  uint64_t NextIncarnation() { return ++incarnations_; }

  ClusterOptions options_;
  Processes processes_;
  Network network_;
  uint64_t incarnations_ = 0;
  std::unique_ptr<CoordinatorNode> coordinator_;
  uint64_t to_newer_ = 0;  // nodes that find the new one while an older one lives, too
  // Earlier coordinators live on, because events may still refer to them.
  std::vector<std::unique_ptr<CoordinatorNode>> old_coordinators_;
  std::vector<ShardId> first_shards_;  // by server
  std::vector<std::unique_ptr<ServerNode>> servers_;
  std::vector<std::unique_ptr<WorkerNode>> workers_;
  std::vector<std::vector<std::unique_ptr<SiblingNode>>> siblings_;  // by worker, from process 1
  std::map<uint64_t, uint32_t> process_of_;                          // by incarnation
  std::vector<std::string> violations_;
  std::map<uint64_t, std::vector<std::pair<uint64_t, wire::View>>> views_;  // by epoch; member
  wire::View latest_;
  std::vector<uint64_t> pushed_bytes_by_shard_;
  Time last_completion_{};
  uint64_t events_at_once_ = 0;
  std::function<void(const std::string&)> log_;
  ClusterFaults faults_{*this};
};

}  // namespace byteps::sim
