#include "sim/coordinator_node.h"

#include "sim/dice.h"

namespace byteps::sim {
namespace {

protocol::CoordinatorOptions OptionsOf(const ClusterOptions& options, uint64_t process) {
  protocol::CoordinatorOptions made;
  Dice dice(options.network.seed * 1000 + process);
  made.nonce = static_cast<uint32_t>(dice.From(1, UINT32_MAX));
  auto first_workers = static_cast<uint32_t>(options.worker_hosts.size()) - options.late_workers;
  Processes processes(options.processes, options.worker_hosts.size());
  made.worker_machines = processes.CarrierOf(first_workers);
  made.server_count = static_cast<uint32_t>(options.servers.size());
  made.version = kVersion;
  made.min_workers = options.min_workers;
  made.strict = options.strict;
  made.rules = &protocol::RulesWith(options.mistakes.coordinator);
  made.judge_after = options.overdue_after;
  if (options.heartbeat == Duration::zero()) {
    made.silence_evict = made.silence_end = Duration::zero();
  }
  return made;
}

// No connection of the network has this number.
constexpr protocol::ConnectionId kLauncher = UINT64_MAX;

}  // namespace

void Ticker::Arm() {
  if (stopped_) return;
  std::optional<Time> next = next_();
  if (!next.has_value()) return;
  Time when = clock_.InNetwork(*next);
  if (armed_.has_value() && *armed_ <= when) return;
  armed_ = when;
  network_.At(when, owner_, [this, when] { Ring(when); });
}

void Ticker::Ring(Time when) {
  if (armed_ != when) return;
  armed_.reset();
  if (stopped_) return;
  Time now = clock_.now();
  std::optional<Time> due = next_();
  if (due.has_value() && *due <= now) tick_(now);
  Arm();
}

CoordinatorNode::CoordinatorNode(Cluster& cluster, uint64_t process)
    : cluster_(cluster),
      clock_(cluster.network_),
      machine_(OptionsOf(cluster.options_, process), *this, clock_.now()),
      ticker_(
          cluster.network_, clock_, this, [this] { return machine_.NextTick(); },
          [this](Time now) { machine_.OnTick(now); }) {
  ticker_.Arm();
}

void CoordinatorNode::OnFrame(ConnectionId connection, uint32_t, Frame& frame) {
  if (cluster_.logs()) cluster_.Log("coordinator: " + Describe(frame));
  machine_.OnMessage(connection, MessageOf(frame), clock_.now());
  ticker_.Arm();
}

void CoordinatorNode::OnLost(ConnectionId connection, uint32_t) {
  machine_.OnLost(connection, "the connection was closed", clock_.now());
  ticker_.Arm();
}

void CoordinatorNode::Send(protocol::ConnectionId to, const wire::Message& message) {
  if (to == kLauncher) return;
  Frame& frame = cluster_.network_.NewFrame();
  MakeControl(frame, message);
  cluster_.network_.Send(static_cast<ConnectionId>(to), this, frame);
}

void CoordinatorNode::Disconnect(protocol::ConnectionId id) {
  if (id == kLauncher) return;
  cluster_.network_.At(cluster_.network_.now() + seconds(1), this,
                       [this, id] { cluster_.network_.Close(static_cast<ConnectionId>(id)); });
}

void CoordinatorNode::Report(const std::string& text) { cluster_.Log("coordinator: " + text); }

void CoordinatorNode::Finish(const Status& how) {
  outcome = how;
  ticker_.Stop();
  cluster_.Log("coordinator: finished: " + how.ToString());
  if (cluster_.coordinator_.get() == this) return;
  // The process of the older of two coordinators ends when it has told the members.
  cluster_.network_.At(cluster_.network_.now() + seconds(1), this, [this] { Stop(); });
}

// A launcher has no connection of its own here; its message reaches the coordinator at once.
void CoordinatorNode::OnExit(Role role, uint32_t index, uint64_t incarnation) {
  wire::Suspect suspect{role, index, incarnation, wire::Suspicion::kExited, "it has ended"};
  machine_.OnMessage(kLauncher, suspect, clock_.now());
  ticker_.Arm();
}

void CoordinatorNode::Stop() {
  dead = true;
  ticker_.Stop();
  cluster_.network_.Kill(this);
}

void CoordinatorNode::StepClock(Duration by) {
  clock_.Step(by);
  ticker_.Arm();
}

}  // namespace byteps::sim
