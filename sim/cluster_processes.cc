// The processes of a cluster's workers. Each comes, goes and fails by itself.
#include <algorithm>
#include <set>

#include "sim/coordinator_node.h"
#include "sim/server_node.h"
#include "sim/sibling.h"
#include "sim/worker_node.h"

namespace byteps::sim {

void Cluster::OneByOne(uint32_t worker, uint32_t first, const std::function<void(uint32_t)>& what) {
  uint32_t size = processes_.SizeOf(worker);
  for (uint32_t i = 0; i < size; ++i) {
    uint32_t process = (first + i) % size;
    if (i == 0 && process == 0) {
      what(process);
      continue;
    }
    const Endpoint* who = workers_[worker].get();
    if (process > 0) who = &Sibling(worker, process);
    network_.At(network_.now() + i * options_.process_gap, who, [what, process] { what(process); });
  }
}

void Cluster::Start() {
  for (auto& server : servers_) server->Start();
  for (uint32_t worker = 0; worker < first_workers(); ++worker) StartProcesses(worker);
}

void Cluster::Join(uint32_t worker) {
  Log("worker " + std::to_string(worker) + " comes");
  StartProcesses(worker);
}

void Cluster::StartProcesses(uint32_t worker) {
  OneByOne(worker, 0, [this, worker](uint32_t process) {
    if (process == 0) return workers_[worker]->Start();
    Sibling(worker, process).Start();
  });
}

void Cluster::Sync(uint32_t worker) {
  OneByOne(worker, 0, [this, worker](uint32_t process) {
    if (process == 0) return workers_[worker]->Sync();
    Sibling(worker, process).Sync();
  });
}

void Cluster::Leave(uint32_t worker, uint32_t first) {
  OneByOne(worker, first, [this, worker](uint32_t process) {
    if (process == 0) return workers_[worker]->Leave();
    Sibling(worker, process).Leave();
  });
}

uint64_t Cluster::IncarnationOf(Role role, uint32_t index, uint32_t process) const {
  if (role == Role::kServer) return servers_[index]->incarnation();
  if (process > 0) return Sibling(index, process).incarnation();
  return workers_[index]->incarnation();
}

const MemberControl* Cluster::ControlOf(uint32_t node, uint32_t process) const {
  if (node < workers_.size()) {
    return process > 0 ? &Sibling(node, process).control() : &workers_[node]->control();
  }
  node -= static_cast<uint32_t>(workers_.size());
  return node < servers_.size() ? &servers_[node]->control() : nullptr;
}

uint32_t Cluster::ProcessAt(uint32_t reader, uint32_t rank) const {
  for (const wire::WorkerInfo& one : workers_[reader]->roster()) {
    if (one.rank != rank) continue;
    auto found = process_of_.find(one.incarnation);
    return found == process_of_.end() ? kNobody : found->second;
  }
  return kNobody;
}

uint32_t Cluster::WorkerOf(uint64_t incarnation) const {
  auto found = process_of_.find(incarnation);
  return found == process_of_.end() ? kNobody : processes_.WorkerOf(found->second);
}

bool Cluster::Lives(uint64_t incarnation) const {
  for (const auto& server : servers_) {
    if (server->incarnation() == incarnation) return !server->dead;
  }
  auto found = process_of_.find(incarnation);
  if (found == process_of_.end()) return false;
  uint32_t worker = processes_.WorkerOf(found->second);
  uint32_t process = found->second - processes_.CarrierOf(worker);
  if (process == 0) return workers_[worker]->alive && !workers_[worker]->evicted;
  const SiblingNode& sibling = Sibling(worker, process);
  return sibling.alive && !sibling.evicted;
}

bool Cluster::any_evicted(uint32_t worker) const {
  return workers_[worker]->evicted ||
         std::any_of(siblings_[worker].begin(), siblings_[worker].end(),
                     [](const auto& sibling) { return sibling->evicted; });
}

void Cluster::CheckWhole(const wire::View& view) {
  std::set<uint64_t> in_view;
  for (const wire::WorkerInfo& one : view.workers) in_view.insert(one.incarnation);
  for (uint32_t worker = 0; worker < workers_.size(); ++worker) {
    const WorkerNode& carrier = *workers_[worker];
    size_t named = in_view.count(carrier.incarnation());
    bool carrier_left = carrier.said_leave();
    for (const auto& sibling : siblings_[worker]) named += in_view.count(sibling->incarnation());
    size_t absent_in_order = carrier_left && !in_view.contains(carrier.incarnation()) ? 1 : 0;
    for (const auto& sibling : siblings_[worker]) {
      bool absent = sibling->said_leave() && !in_view.contains(sibling->incarnation());
      absent_in_order += absent ? 1 : 0;
    }
    if (named == 0 || named + absent_in_order == processes_.SizeOf(worker)) continue;
    violations_.push_back("view " + std::to_string(view.epoch) + " names " + std::to_string(named) +
                          " of the " + std::to_string(processes_.SizeOf(worker)) +
                          " processes of worker " + std::to_string(worker));
  }
}

// Looks a second later, because a process that is lost together with its contributor may go, too,
// and is in no view then.
void Cluster::CheckMayGo(uint32_t worker) {
  if (processes_.SizeOf(worker) == 1) return;
  network_.At(network_.now() + seconds(1), nullptr, [this, worker] {
    for (const auto& sibling : siblings_[worker]) {
      bool in_view =
          std::any_of(latest_.workers.begin(), latest_.workers.end(),
                      [&](const auto& one) { return one.incarnation == sibling->incarnation(); });
      bool stays = in_view && sibling->alive && !sibling->ended() && !sibling->said_leave();
      if (!stays) continue;
      violations_.push_back("the carrier of worker " + std::to_string(worker) +
                            " may go although another process of it stays");
    }
  });
}

std::optional<std::string> Cluster::ForgottenSibling() const {
  std::set<uint64_t> in_view;
  for (const wire::WorkerInfo& one : latest_.workers) in_view.insert(one.incarnation);
  for (uint32_t worker = 0; worker < workers_.size(); ++worker) {
    for (const auto& sibling : siblings_[worker]) {
      bool member = sibling->control().membership().view().epoch > 0;
      bool forgotten = member && sibling->alive && !sibling->ended() &&
                       !in_view.contains(sibling->incarnation());
      if (forgotten)
        return "a process of worker " + std::to_string(worker) + " is out, and works on";
    }
  }
  return std::nullopt;
}

}  // namespace byteps::sim
