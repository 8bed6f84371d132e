#include "sim/cluster.h"

#include <algorithm>

#include "sim/coordinator_node.h"
#include "sim/server_node.h"
#include "sim/sibling.h"
#include "sim/worker_node.h"

namespace byteps::sim {
namespace {

// The limit is far more than any job has at one instant. A state machine that asks for a tick at
// once, for ever, reaches it.
constexpr uint64_t kEventsAtOnce = 3'000'000;

}  // namespace

Cluster::Cluster(const ClusterOptions& options)
    : options_(options),
      processes_(options.processes, options.worker_hosts.size()),
      network_(options.network) {
  for (double link : options_.host_links) network_.AddHost(link);
  coordinator_ = std::make_unique<CoordinatorNode>(*this, 0);
  ShardId next_shard = 0;
  for (uint32_t i = 0; i < options_.servers.size(); ++i) {
    servers_.push_back(std::make_unique<ServerNode>(*this, i, next_shard, NextIncarnation()));
    first_shards_.push_back(next_shard);
    next_shard += options_.servers[i].shards;
  }
  pushed_bytes_by_shard_.resize(next_shard);
  for (uint32_t i = 0; i < options_.worker_hosts.size(); ++i) {
    workers_.push_back(std::make_unique<WorkerNode>(*this, i, NextIncarnation()));
    process_of_[workers_.back()->incarnation()] = processes_.CarrierOf(i);
  }
  siblings_.resize(workers_.size());
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    for (uint32_t process = 1; process < processes_.SizeOf(i); ++process) {
      siblings_[i].push_back(
          std::make_unique<SiblingNode>(*this, i, process, NextIncarnation(), false));
      process_of_[siblings_[i].back()->incarnation()] = processes_.CarrierOf(i) + process;
    }
  }
}

Cluster::~Cluster() = default;

void Cluster::Submit(uint32_t worker, Time when, protocol::Operation operation) {
  // The operation is shared, because std::function must be copyable and an operation may be
  // expensive to copy.
  auto shared = std::make_shared<protocol::Operation>(std::move(operation));
  network_.At(when, workers_[worker].get(),
              [this, worker, shared] { workers_[worker]->Submit(std::move(*shared)); });
}

const std::map<protocol::OperationId, Completion>& Cluster::completions(uint32_t worker) const {
  return workers_[worker]->completions;
}

const std::map<protocol::OperationId, Status>& Cluster::refusals(uint32_t worker) const {
  return workers_[worker]->refusals;
}

// Runs behind the submissions of this instant.
void Cluster::Stick(uint32_t worker) {
  network_.At(network_.now(), workers_[worker].get(),
              [this, worker] { workers_[worker]->Stick(); });
}

CoordinatorNode* Cluster::CoordinatorOf(uint32_t node) const {
  if ((to_newer_ >> node & 1) == 0) {
    for (const auto& old : old_coordinators_) {
      if (!old->dead) return old.get();
    }
  }
  return coordinator_.get();
}

void Cluster::AbortOpen(uint32_t worker) {
  Log("worker " + std::to_string(worker) + " gives up what it has open");
  workers_[worker]->AbortOpen();
}

void Cluster::OnViewInForce(uint64_t incarnation, const wire::View& view) {
  auto& holders = views_[view.epoch];
  for (const auto& [holder, other] : holders) {
    if (other == view || !Lives(holder)) continue;
    violations_.push_back("two views have epoch " + std::to_string(view.epoch));
  }
  holders.emplace_back(incarnation, view);
  if (latest_.epoch > 0 && view.founder != latest_.founder) {
    violations_.push_back("two jobs: view " + std::to_string(view.epoch) + " is of another one");
  }
  CheckWhole(view);
  if (view.epoch > latest_.epoch) latest_ = view;
}

bool Cluster::agrees(uint32_t worker) const {
  const WorkerNode& node = *workers_[worker];
  return node.said_leave() ||
         std::any_of(latest_.workers.begin(), latest_.workers.end(),
                     [&](const auto& one) { return one.incarnation == node.incarnation(); });
}

bool Cluster::evicted(uint32_t worker) const { return workers_[worker]->evicted; }

uint64_t Cluster::repeated_answers() const {
  uint64_t count = 0;
  for (const auto& worker : workers_) count += worker->repeated_answers();
  return count;
}

size_t Cluster::copies_held() const {
  size_t bytes = 0;
  for (const auto& worker : workers_) {
    if (worker->alive && !worker->evicted) bytes += worker->pool_bytes();
  }
  return bytes;
}

std::vector<const wire::View*> Cluster::views() const {
  std::vector<const wire::View*> views;
  for (const auto& worker : workers_) {
    if (worker->alive) views.push_back(&worker->control().membership().view());
  }
  for (const auto& server : servers_) {
    if (!server->dead) views.push_back(&server->control().membership().view());
  }
  return views;
}

HostId Cluster::HostOf(uint32_t node) const {
  if (node < workers_.size()) return options_.worker_hosts[node];
  node -= static_cast<uint32_t>(workers_.size());
  return node < servers_.size() ? options_.servers[node].host : options_.coordinator_host;
}

bool Cluster::alive(uint32_t worker) const { return workers_[worker]->alive; }

bool Cluster::Step() {
  Time before = network_.now();
  if (!network_.Step()) return false;
  events_at_once_ = network_.now() == before ? events_at_once_ + 1 : 0;
  if (events_at_once_ <= kEventsAtOnce) return true;
  violations_.push_back("hang: time stands still, " + std::to_string(events_at_once_) +
                        " events are at one moment");
  return false;
}

bool Cluster::RunUntilIdle(Time until) {
  while (network_.now() < until) {
    if (!Step()) return events_at_once_ <= kEventsAtOnce;
  }
  return false;
}

std::optional<Status> Cluster::coordinator_outcome() const {
  for (const auto& old : old_coordinators_) {
    if (old->outcome.has_value() && !old->outcome->ok()) return old->outcome;
  }
  return coordinator_->outcome;
}

size_t Cluster::verdicts_held() const {
  size_t held = 0;
  for (const auto& server : servers_) {
    if (server->dead) continue;
    for (const auto& shard : server->shards) held += shard->machine().unstable_verdicts();
  }
  return held;
}

size_t Cluster::rounds_open() const {
  size_t open = 0;
  for (const auto& server : servers_) {
    if (server->dead) continue;
    for (const auto& shard : server->shards) open += shard->machine().open_rounds();
  }
  return open;
}

}  // namespace byteps::sim
