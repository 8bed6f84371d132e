#include "sim/cluster.h"

#include "sim/nodes.h"

namespace byteps::sim {

Cluster::Cluster(const ClusterOptions& options) : options_(options), network_(options.network) {
  for (double link : options_.host_links) network_.AddHost(link);
  coordinator_ = std::make_unique<CoordinatorNode>(*this);
  ShardId next_shard = 0;
  for (uint32_t i = 0; i < options_.servers.size(); ++i) {
    servers_.push_back(std::make_unique<ServerNode>(*this, i, next_shard, NextIncarnation()));
    next_shard += options_.servers[i].shards;
  }
  pushed_bytes_by_shard_.resize(next_shard);
  for (uint32_t i = 0; i < options_.worker_hosts.size(); ++i) {
    workers_.push_back(std::make_unique<WorkerNode>(*this, i, NextIncarnation()));
  }
}

Cluster::~Cluster() = default;

void Cluster::Start() {
  for (auto& server : servers_) server->Start();
  for (auto& worker : workers_) worker->Start();
}

void Cluster::Submit(uint32_t worker, Time when, protocol::Operation operation) {
  // std::function must be copyable, an operation need not be cheap to copy: share it.
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

void Cluster::Leave(uint32_t worker) { workers_[worker]->Leave(); }

void Cluster::KillWorker(uint32_t worker) {
  Log("kill worker " + std::to_string(worker));
  workers_[worker]->alive = false;
  network_.Kill(workers_[worker].get());
}

void Cluster::KillServer(uint32_t server) {
  Log("kill server " + std::to_string(server));
  servers_[server]->Stop();
}

void Cluster::KillCoordinator() {
  Log("kill coordinator");
  coordinator_->Stop();
}

void Cluster::CutDataConnection(uint32_t worker, uint32_t shard) {
  Log("cut worker " + std::to_string(worker) + " - shard " + std::to_string(shard));
  if (shard < workers_[worker]->data.size()) network_.Close(workers_[worker]->data[shard]);
}

void Cluster::FreezeWorker(uint32_t worker, bool frozen) {
  Log((frozen ? "freeze worker " : "thaw worker ") + std::to_string(worker));
  network_.Freeze(workers_[worker].get(), frozen);
}

void Cluster::FreezeServer(uint32_t server, bool frozen) {
  Log((frozen ? "freeze server " : "thaw server ") + std::to_string(server));
  network_.Freeze(servers_[server].get(), frozen);
  for (auto& shard : servers_[server]->shards) network_.Freeze(shard.get(), frozen);
}

void Cluster::FreezeCoordinator(bool frozen) {
  Log(frozen ? "freeze coordinator" : "thaw coordinator");
  network_.Freeze(coordinator_.get(), frozen);
}

void Cluster::CutWorkerControl(uint32_t worker) {
  Log("cut worker " + std::to_string(worker) + " - coordinator");
  network_.Close(workers_[worker]->control());
}

void Cluster::CutServerControl(uint32_t server) {
  Log("cut server " + std::to_string(server) + " - coordinator");
  network_.Close(servers_[server]->control());
}

bool Cluster::alive(uint32_t worker) const { return workers_[worker]->alive; }

bool Cluster::RunUntilIdle(Time until) {
  while (network_.now() < until) {
    if (!network_.Step()) return true;
  }
  return false;
}

std::optional<Status> Cluster::coordinator_outcome() const { return coordinator_->outcome; }

size_t Cluster::verdicts_held() const {
  size_t held = 0;
  for (const auto& server : servers_) {
    for (const auto& shard : server->shards) held += shard->machine().unstable_verdicts();
  }
  return held;
}

size_t Cluster::rounds_open() const {
  size_t open = 0;
  for (const auto& server : servers_) {
    for (const auto& shard : server->shards) open += shard->machine().open_rounds();
  }
  return open;
}

}  // namespace byteps::sim
