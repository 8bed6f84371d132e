#include "sim/sibling.h"

#include <utility>

namespace byteps::sim {

wire::Join WorkerJoin(const ClusterOptions& options, const Processes& processes, uint32_t worker,
                      uint32_t process, uint64_t incarnation) {
  auto first_workers = static_cast<uint32_t>(options.worker_hosts.size()) - options.late_workers;
  uint32_t number = processes.CarrierOf(worker) + process;
  wire::Join join;
  join.role = Role::kWorker;
  // A process that comes later takes any free place.
  join.rank = worker < first_workers ? static_cast<int32_t>(number) : -1;
  join.incarnation = incarnation;
  join.host = "host-" + std::to_string(options.worker_hosts[worker]);
  join.worker_count = processes.CarrierOf(first_workers);
  join.server_count = static_cast<uint32_t>(options.servers.size());
  join.piece_bytes_max = options.piece_bytes_max;
  join.version = kVersion;
  if (processes.SizeOf(worker) == 1) return join;
  join.contributor = "contributor-" + std::to_string(worker);
  join.contributor_size = processes.SizeOf(worker);
  join.local_rank = process;
  join.local_size = join.contributor_size;
  return join;
}

wire::Join SiblingNode::MakeJoin(const Cluster& cluster, uint32_t worker, uint32_t process,
                                 uint64_t incarnation, bool again) {
  wire::Join join = WorkerJoin(cluster.options_, cluster.processes_, worker, process, incarnation);
  if (again) join.rank = -1;
  return join;
}

SiblingNode::SiblingNode(Cluster& cluster, uint32_t worker, uint32_t process, uint64_t incarnation,
                         bool again)
    : cluster_(cluster),
      name_("worker " + std::to_string(worker) + ", process " + std::to_string(process) +
            (again ? ", again: " : ": ")),
      incarnation_(incarnation),
      clock_(cluster.network_),
      control_(cluster, this, worker, cluster.options_.worker_hosts[worker],
               MakeJoin(cluster, worker, process, incarnation, again),
               {[this](const wire::View& view) { OnView(view); },
                [this](const wire::Message& message) { OnMessage(message); },
                [] { return std::vector<wire::Known>(); }, [this] { OnBack(); }, [this] { GoOn(); },
                [this](const Status& why) { Stop(why.ToString()); }}) {}

void SiblingNode::Sync() {
  if (++syncs_ == 1 && !stopped_) control_.Send(control_.membership().NextSync());
}

// Leaves at once, because it holds nothing that others may lack.
void SiblingNode::Leave() {
  if (!alive || stopped_ || !leaving_.Begin()) return;
  if (auto leave = leaving_.Say(0)) control_.Send(*leave);
}

void SiblingNode::Die() {
  alive = false;
  stopped_ = true;
  control_.Stop();
  cluster_.network_.Kill(this);
}

// Repeats messages that a coordinator has not answered.
void SiblingNode::OnBack() {
  if (syncs_ > 0) control_.Send(control_.membership().NextSync());
  if (auto leave = leaving_.SayAgain()) control_.Send(*leave);
}

void SiblingNode::GoOn() {
  if (syncs_ > 0 && --syncs_ > 0) control_.Send(control_.membership().NextSync());
}

void SiblingNode::OnView(const wire::View& view) {
  if (!control_.membership().IsEvicted()) {
    uint32_t before = std::exchange(generation_, view.generation);
    if (before == view.generation) return;
    if (before != 0) return GoOn();
    return OnBack();  // no coordinator has heard its messages from before
  }
  evicted = evicted || !said_leave();
  Stop("it is in the view no more");
}

void SiblingNode::OnMessage(const wire::Message& message) {
  if (const auto* over = std::get_if<wire::JobOver>(&message)) {
    evicted = evicted || over->code == StatusCode::kEvicted;
    Stop(over->text);
  }
  if (const auto* refused = std::get_if<wire::Refused>(&message)) {
    evicted = evicted || refused->code == StatusCode::kEvicted;
    Stop(refused->text);
  }
  if (std::holds_alternative<wire::Leave>(message)) Stop("it has left");
}

void SiblingNode::Stop(const std::string& why) {
  if (std::exchange(stopped_, true)) return;
  cluster_.Log(name_ + "ends: " + why);
  control_.Stop();
}

void SiblingNode::OnFrame(ConnectionId connection, uint32_t, Frame& frame) {
  if (stopped_) return;
  if (cluster_.logs()) cluster_.Log(name_ + Describe(frame));
  control_.OnFrame(connection, frame);
}

void SiblingNode::OnLost(ConnectionId connection, uint32_t) {
  if (!stopped_) control_.OnLost(connection);
}

}  // namespace byteps::sim
