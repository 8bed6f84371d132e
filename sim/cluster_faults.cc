#include "sim/cluster_faults.h"

#include <algorithm>
#include <string>
#include <utility>

#include "sim/coordinator_node.h"
#include "sim/server_node.h"
#include "sim/sibling.h"
#include "sim/worker_node.h"

namespace byteps::sim {
namespace {

std::string NameOf(uint32_t worker, uint32_t process) {
  std::string name = "worker " + std::to_string(worker);
  return process == 0 ? name : name + ", process " + std::to_string(process);
}

}  // namespace

ClusterFaults::ClusterFaults(Cluster& cluster) : cluster_(cluster) {}

ClusterFaults::~ClusterFaults() = default;

void ClusterFaults::KillWorker(uint32_t worker, uint32_t process) {
  cluster_.Log("kill " + NameOf(worker, process));
  if (process == 0) return cluster_.workers_[worker]->Die();
  cluster_.Sibling(worker, process).Die();
}

// Does nothing if the contributor was never in a view: the process would then be like the others.
void ClusterFaults::BearSibling(uint32_t worker, uint32_t process) {
  if (cluster_.Sibling(worker, process).control().membership().view().epoch == 0) return;
  std::unique_ptr<SiblingNode>& again = born_again_[{worker, process}];
  if (again != nullptr) return;  // the killed process was dead before; nobody starts it twice
  cluster_.Log("another " + NameOf(worker, process));
  again =
      std::make_unique<SiblingNode>(cluster_, worker, process, cluster_.NextIncarnation(), true);
  again->Start();
}

void ClusterFaults::KillServer(uint32_t server) {
  cluster_.Log("kill server " + std::to_string(server));
  cluster_.servers_[server]->Stop();
}

void ClusterFaults::KillCoordinator() {
  cluster_.Log("kill coordinator");
  cluster_.coordinator_->Stop();
}

void ClusterFaults::RestartServer(uint32_t server) {
  if (!cluster_.servers_[server]->dead) return;
  cluster_.Log("another server " + std::to_string(server));
  old_servers_.push_back(std::move(cluster_.servers_[server]));
  cluster_.servers_[server] = std::make_unique<ServerNode>(
      cluster_, server, cluster_.first_shards_[server], cluster_.NextIncarnation());
  cluster_.servers_[server]->Start();
}

void ClusterFaults::RestartCoordinator() {
  if (!cluster_.coordinator_->dead) return;
  cluster_.Log("another coordinator");
  cluster_.old_coordinators_.push_back(std::move(cluster_.coordinator_));
  cluster_.coordinator_ =
      std::make_unique<CoordinatorNode>(cluster_, cluster_.old_coordinators_.size());
  for (const wire::Suspect& exit : exits_) {
    cluster_.coordinator_->OnExit(exit.role, exit.index, exit.incarnation);
  }
}

void ClusterFaults::Rival(uint64_t nodes) {
  auto lives = [](const auto& one) { return !one->dead; };
  bool two =
      std::any_of(cluster_.old_coordinators_.begin(), cluster_.old_coordinators_.end(), lives);
  if (!two) {
    cluster_.Log("a second coordinator");
    cluster_.old_coordinators_.push_back(std::move(cluster_.coordinator_));
    cluster_.coordinator_ =
        std::make_unique<CoordinatorNode>(cluster_, cluster_.old_coordinators_.size());
    for (const wire::Suspect& exit : exits_) {
      cluster_.coordinator_->OnExit(exit.role, exit.index, exit.incarnation);
    }
    cluster_.to_newer_ = 0;
  }
  uint64_t moved = cluster_.to_newer_ ^ nodes;
  cluster_.to_newer_ = nodes;
  for (uint32_t node = 0; node < cluster_.workers_.size() + cluster_.servers_.size(); ++node) {
    if ((moved >> node & 1) == 0) continue;
    uint32_t processes = node < cluster_.workers_.size() ? cluster_.processes_.SizeOf(node) : 1;
    for (uint32_t i = 0; i < processes; ++i) CutControl(node, Duration::zero(), i);
  }
}

void ClusterFaults::EndRivals() {
  for (auto& old : cluster_.old_coordinators_) {
    if (old->dead) continue;
    cluster_.Log("the older coordinator ends");
    old->Stop();
  }
}

void ClusterFaults::CutDataConnection(uint32_t worker, uint32_t shard) {
  cluster_.Log("cut worker " + std::to_string(worker) + " - shard " + std::to_string(shard));
  std::optional<ConnectionId> connection = cluster_.workers_[worker]->data(shard);
  if (connection.has_value()) cluster_.network_.Close(*connection);
}

void ClusterFaults::CutOneWay(uint32_t worker, uint32_t shard, bool from_worker, bool cut) {
  std::optional<ConnectionId> connection = cluster_.workers_[worker]->data(shard);
  if (!connection.has_value()) return;
  cluster_.Log(std::string(cut ? "cut " : "heal ") +
               (from_worker ? "worker " : "shard to worker ") + std::to_string(worker) +
               " - shard " + std::to_string(shard) + ", one way");
  cluster_.network_.Cut(*connection, from_worker ? 0 : 1, cut);
}

void ClusterFaults::Partition(const std::vector<HostId>& apart) {
  cluster_.Log(apart.empty() ? "the partition heals"
                             : "a partition of " + std::to_string(apart.size()) + " hosts");
  if (apart.empty()) return cluster_.network_.Partition({});
  std::vector<uint32_t> groups(cluster_.options_.host_links.size(), 0);
  for (HostId host : apart) groups[host] = 1;
  cluster_.network_.Partition(std::move(groups));
}

void ClusterFaults::SetJitter(uint32_t worker, uint32_t shard, Duration jitter_max) {
  std::optional<ConnectionId> connection = cluster_.workers_[worker]->data(shard);
  if (connection.has_value()) cluster_.network_.SetJitter(*connection, jitter_max);
}

void ClusterFaults::CutControl(uint32_t node, Duration lasts, uint32_t process) {
  cluster_.Log("cut node " + std::to_string(node) + " - coordinator");
  Time until = cluster_.network_.now() + lasts;
  if (node < cluster_.workers_.size()) {
    if (process > 0) return cluster_.Sibling(node, process).CutControl(until);
    return cluster_.workers_[node]->CutControl(until);
  }
  node -= static_cast<uint32_t>(cluster_.workers_.size());
  if (node < cluster_.servers_.size()) cluster_.servers_[node]->CutControl(until);
}

void ClusterFaults::LagControl(uint32_t node, Duration jitter_max, uint32_t process) {
  const MemberControl* control = cluster_.ControlOf(node, process);
  if (control == nullptr || !control->connection().has_value()) return;
  cluster_.Log("node " + std::to_string(node) + " hears late of the coordinator");
  cluster_.network_.SetJitter(*control->connection(), jitter_max);
}

void ClusterFaults::SlowLink(uint32_t node, double factor) {
  cluster_.Log("the link of node " + std::to_string(node) + " has " + std::to_string(factor) +
               " of its rate");
  HostId host = cluster_.HostOf(node);
  cluster_.network_.SetRate(host, cluster_.options_.host_links[host] * factor);
}

void ClusterFaults::Measure(uint32_t server) {
  cluster_.Log("workers find the link of server " + std::to_string(server) + " slow");
  // This number of measurements suffices for the coordinator, whatever it knows already. The job
  // becomes faster half-way.
  constexpr int kMeasurements = 24;
  constexpr uint64_t kMeasurementUs = 1'000'000;
  for (int measurement = 0; measurement < kMeasurements; ++measurement) {
    for (uint32_t worker = 0; worker < cluster_.workers_.size(); ++worker) {
      WorkerNode& node = *cluster_.workers_[worker];
      if (!cluster_.alive(worker) || cluster_.evicted(worker)) continue;
      const wire::View& view = node.control().membership().view();
      wire::Rates rates{view.epoch, {}};
      for (const wire::ServerInfo& one : view.servers) {
        for (ShardId i = 0; i < one.shard_weights.size(); ++i) {
          uint64_t busy = one.index == server ? kMeasurementUs : kMeasurementUs / 2;
          uint64_t bytes = measurement < kMeasurements / 2 ? 1'000'000 : 3'000'000;
          rates.shards.push_back({one.first_shard + i, bytes, busy, kMeasurementUs});
        }
      }
      node.SendControl(rates);
    }
  }
}

void ClusterFaults::Accuse(Role role, uint32_t index) {
  cluster_.Log(std::string("an accusation of ") + (role == Role::kWorker ? "worker " : "server ") +
               std::to_string(index));
  wire::Suspect suspect{role, index, cluster_.IncarnationOf(role, index),
                        wire::Suspicion::kNonsense, "somebody says so"};
  if (role == Role::kWorker) suspect.index = cluster_.workers_[index]->slot();
  for (uint32_t worker = 0; worker < cluster_.workers_.size(); ++worker) {
    bool itself = role == Role::kWorker && worker == index;
    if (itself || !cluster_.alive(worker) || cluster_.evicted(worker)) continue;
    return cluster_.workers_[worker]->SendControl(suspect);
  }
}

void ClusterFaults::FreezeWorker(uint32_t worker, bool frozen, uint32_t process) {
  cluster_.Log((frozen ? "freeze " : "thaw ") + NameOf(worker, process));
  const Endpoint* end = cluster_.workers_[worker].get();
  if (process > 0) end = &cluster_.Sibling(worker, process);
  cluster_.network_.Freeze(end, frozen);
}

void ClusterFaults::FreezeServer(uint32_t server, bool frozen) {
  cluster_.Log((frozen ? "freeze server " : "thaw server ") + std::to_string(server));
  cluster_.network_.Freeze(cluster_.servers_[server].get(), frozen);
  for (auto& shard : cluster_.servers_[server]->shards)
    cluster_.network_.Freeze(shard.get(), frozen);
}

void ClusterFaults::FreezeCoordinator(bool frozen) {
  cluster_.Log(frozen ? "freeze coordinator" : "thaw coordinator");
  cluster_.network_.Freeze(cluster_.coordinator_.get(), frozen);
}

void ClusterFaults::TellExit(Role role, uint32_t index, uint64_t incarnation) {
  exits_.push_back({role, index, incarnation, wire::Suspicion::kExited, "it has ended"});
  if (!cluster_.coordinator_->dead) cluster_.coordinator_->OnExit(role, index, incarnation);
  for (auto& old : cluster_.old_coordinators_) {
    if (!old->dead) old->OnExit(role, index, incarnation);
  }
}

void ClusterFaults::StepClock(uint32_t node, Duration by, uint32_t process) {
  cluster_.Log("the clock of node " + std::to_string(node) + " jumps by " +
               std::to_string(ToSeconds(by)) + " s");
  if (node < cluster_.workers_.size()) {
    if (process > 0) return cluster_.Sibling(node, process).StepClock(by);
    return cluster_.workers_[node]->StepClock(by);
  }
  node -= static_cast<uint32_t>(cluster_.workers_.size());
  if (node < cluster_.servers_.size()) return cluster_.servers_[node]->StepClock(by);
  cluster_.coordinator_->StepClock(by);
}

}  // namespace byteps::sim
