#include "src/protocol/control/control_world_for_test.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "src/protocol/control/coordinator.h"
#include "src/protocol/control/views/membership.h"
#include "src/protocol/control/world_parts_for_test.h"

namespace byteps::protocol {
namespace {

class World {
 public:
  World(uint64_t seed, const WorldRules& rules) : rules_(rules), random_(seed) {
    worker_count_ = 1 + Pick(5);
    server_count_ = 1 + Pick(2);
    pairs_ = rules.pairs || Pick(2) == 0;
    if (pairs_) worker_count_ += worker_count_ % 2;
  }

  // Returns the fault that was found, or nothing.
  std::string Run(int steps) {
    StartCoordinator();
    for (uint32_t i = 0; i < worker_count_; ++i) StartNode(Role::kWorker, i);
    for (uint32_t i = 0; i < server_count_; ++i) StartNode(Role::kServer, i);
    for (size_t i = 0; i < nodes_.size(); ++i) Connect(nodes_[i], 0);
    Settle();
    for (int i = 0; i < steps && wrong_.empty() && !over_; ++i) Step();
    if (wrong_.empty() && !over_ && !rules_.strict) Heal();
    return wrong_;
  }

  bool over() const { return over_; }
  bool stuck() const { return stuck_; }
  uint64_t epochs() const { return epoch_max_; }

 private:
  using Node = WorldNode;
  using Link = WorldLink;
  struct Process final : CoordinatorDriver {
    explicit Process(World& in) : world(in) {}
    void Send(ConnectionId to, const wire::Message& message) override {
      auto found = world.links_.find(to);
      if (found == world.links_.end() || !found->second.open_at_coordinator) return;
      found->second.to_node.push_back(message);
    }
    void Disconnect(ConnectionId id) override {
      auto found = world.links_.find(id);
      if (found == world.links_.end()) return;
      found->second.open_at_coordinator = false;
      found->second.close_to_node = true;
    }
    void Report(const std::string&) override {}
    void Finish(const Status&) override { world.over_ = true; }

    World& world;
    std::unique_ptr<Coordinator> machine;
    bool alive = true;
  };

  uint32_t Pick(size_t count) { return static_cast<uint32_t>(random_() % count); }

  void StartCoordinator() {
    CoordinatorOptions options;
    options.worker_machines = 1;
    options.server_count = server_count_;
    options.version = "1";
    options.min_workers = 1;
    options.strict = rules_.strict;
    options.nonce = static_cast<uint32_t>(processes_.size()) + 1;
    options.rules = &RulesWith(rules_.coordinator);
    // Nobody is slow in a world. Only closed connections and words of members count.
    options.start_timeout = options.report_every = std::chrono::hours(1000);
    options.silence_evict = options.silence_end = Duration::zero();
    options.server_patience = options.quorum_patience = options.recovery_patience =
        std::chrono::hours(1000);
    processes_.push_back(std::make_unique<Process>(*this));
    processes_.back()->machine = std::make_unique<Coordinator>(options, *processes_.back(), now_);
  }

  void StartNode(Role role, uint32_t place) {
    Node node;
    node.place = place;
    node.join.role = role;
    node.join.incarnation = nodes_.size() + 1;
    node.join.shards = role == Role::kServer ? 1 : 0;
    node.join.worker_count = worker_count_;
    node.join.server_count = server_count_;
    node.join.piece_bytes_max = 32768;
    node.join.version = "1";
    if (pairs_ && role == Role::kWorker) {
      node.join.contributor = std::to_string(place / 2);
      node.join.contributor_size = 2;
      node.join.local_rank = place % 2;
    }
    node.membership = std::make_unique<Membership>(node.join, RulesWith(rules_.membership));
    nodes_.push_back(std::move(node));
  }

  // A place belongs to one process at a time. Another process is started when that one has ended,
  // or knows that it is out.
  void StartAnother(Role role) {
    std::vector<uint32_t> free;
    for (uint32_t place = 0; place < (role == Role::kWorker ? worker_count_ : server_count_);
         ++place) {
      bool taken = std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& node) {
        return node.join.role == role && node.place == place && Runs(node);
      });
      if (!taken) free.push_back(place);
    }
    if (!free.empty()) StartNode(role, free[Pick(free.size())]);
  }

  void Connect(Node& node, size_t coordinator) {
    // With two coordinators the process may go on listening to its former one.
    bool both = rules_.strict && Pick(2) == 0;
    if (node.connection != 0 && !both) CloseAtNode(node);
    node.connection = next_link_++;
    Link& link = links_[node.connection];
    link.node = static_cast<size_t>(&node - nodes_.data());
    link.coordinator = coordinator;
    link.to_coordinator.push_back(node.membership->Greeting());
    if (node.synced) link.to_coordinator.push_back(node.membership->NextSync());
  }

  void CloseAtNode(Node& node) {
    Link& link = links_[std::exchange(node.connection, 0)];
    link.open_at_node = false;
    link.close_to_coordinator = true;
  }

  void Apply(Node& node, const wire::View& view) {
    epoch_max_ = std::max(epoch_max_, view.epoch);
    if (node.join.role == Role::kWorker && node.generation != 0 &&
        view.generation != node.generation && node.membership->IsMember()) {
      // With two coordinators, a coordinator that is not in power can tell a worker to go on.
      if (!node.synced && !rules_.strict)
        wrong_ = "a generation began without worker " + NameOf(node);
      node.synced = false;
    }
    node.generation = view.generation;
    if (!HasWholeContributors(view, nodes_)) wrong_ = "a contributor of a view is not whole";
    // A process that hears that it is out only learns that. It holds nothing on which it will act.
    if (!node.membership->IsMember()) return;
    for (const Node& other : nodes_) {
      bool works = Runs(other) && other.membership->IsMember();
      if (!works || other.membership->view().founder == view.founder) continue;
      wrong_ = NameOf(other) + " and " + NameOf(node) + " are in two jobs";
    }
    for (const auto& [holder, other] : held_[view.epoch]) {
      if (!nodes_[holder].alive || other == view) continue;
      // A process that is out of an earlier job does not count in this one.
      if (other.founder != view.founder && !Runs(nodes_[holder])) continue;
      wrong_ = "epoch " + std::to_string(view.epoch) + " means different views to " +
               NameOf(nodes_[holder]) + " and " + NameOf(node);
    }
    held_[view.epoch].emplace_back(static_cast<size_t>(&node - nodes_.data()), view);
  }

  static std::string NameOf(const Node& node) { return std::to_string(node.join.incarnation); }

  void DeliverToNode(uint64_t id, Link& link) {
    Node& node = nodes_[link.node];
    if (link.to_node.empty()) {
      link.close_to_node = false;
      link.open_at_node = false;
      if (node.connection == id) node.connection = 0;
      return;
    }
    wire::Message message = std::move(link.to_node.front());
    link.to_node.pop_front();
    if (!node.alive || !link.open_at_node) return;
    Membership::Step step = node.membership->OnMessage(message);
    if (step.go_on) node.synced = false;
    if (step.view.has_value()) Apply(node, *step.view);
    if (step.answer.has_value()) link.to_coordinator.push_back(*step.answer);
  }

  void DeliverToCoordinator(uint64_t id, Link& link) {
    Process& process = *processes_[link.coordinator];
    if (link.to_coordinator.empty()) {
      link.close_to_coordinator = false;
      if (!std::exchange(link.open_at_coordinator, false) || !process.alive) return;
      process.machine->OnLost(id, "closed", now_);
      return;
    }
    wire::Message message = std::move(link.to_coordinator.front());
    link.to_coordinator.pop_front();
    if (process.alive && link.open_at_coordinator) process.machine->OnMessage(id, message, now_);
  }

  // Delivers one message of a random connection, in either direction. Returns false if there is
  // none.
  bool Deliver() {
    std::vector<std::pair<uint64_t, bool>> ready;
    for (auto& [id, link] : links_) {
      if (!link.to_node.empty() || link.close_to_node) ready.emplace_back(id, true);
      if (!link.to_coordinator.empty() || link.close_to_coordinator) ready.emplace_back(id, false);
    }
    if (ready.empty()) return false;
    auto [id, to_node] = ready[Pick(ready.size())];
    Link& link = links_[id];
    to_node ? DeliverToNode(id, link) : DeliverToCoordinator(id, link);
    std::erase_if(links_, [&](const auto& entry) {
      const Link& one = entry.second;
      return !one.open_at_node && !one.open_at_coordinator && !one.close_to_node &&
             !one.close_to_coordinator && nodes_[one.node].connection != entry.first;
    });
    return true;
  }

  void Settle() {
    for (int i = 0; i < 20000 && wrong_.empty() && !over_; ++i) {
      if (!Deliver()) return;
    }
  }

  std::vector<size_t> LivingCoordinators() const {
    std::vector<size_t> living;
    for (size_t i = 0; i < processes_.size(); ++i) {
      if (processes_[i]->alive) living.push_back(i);
    }
    return living;
  }

  void CrashCoordinator(size_t index) {
    processes_[index]->alive = false;
    for (auto& [id, link] : links_) {
      if (link.coordinator != index) continue;
      link.to_node.resize(Pick(link.to_node.size() + 1));
      link.close_to_node = true;
      link.open_at_coordinator = false;
      link.to_coordinator.clear();
      link.close_to_coordinator = false;
    }
  }

  void CrashNode(Node& node) {
    node.alive = false;
    if (node.connection == 0) return;
    Link& link = links_[node.connection];
    link.to_coordinator.resize(Pick(link.to_coordinator.size() + 1));
    CloseAtNode(node);
  }

  void TellExit(size_t coordinator, const Node& node) {
    processes_[coordinator]->machine->OnMessage(
        1, wire::Suspect{node.join.role, 0, node.join.incarnation, wire::Suspicion::kExited, "end"},
        now_);
  }

  void Tick(Coordinator& coordinator) {
    std::optional<Time> next = coordinator.NextTick();
    if (!next.has_value() || *next > now_ + std::chrono::hours(1)) return;
    now_ = std::max(now_, *next);
    coordinator.OnTick(now_);
  }

  void Accuse(Node& node) {
    const wire::View& view = node.membership->view();
    if (node.connection == 0 || view.epoch == 0) return;
    wire::Suspect suspect;
    suspect.why = wire::Suspicion::kNonsense;
    if (Pick(2) == 0) {
      const wire::WorkerInfo& one = view.workers[Pick(view.workers.size())];
      suspect.role = Role::kWorker;
      suspect.index = one.slot;
      suspect.incarnation = one.incarnation;
    } else {
      const wire::ServerInfo& one = view.servers[Pick(view.servers.size())];
      suspect.index = one.index;
      suspect.incarnation = one.incarnation;
    }
    links_[node.connection].to_coordinator.push_back(suspect);
  }

  bool Runs(const Node& node) const { return node.alive && !node.membership->IsEvicted(); }

  void StepOfNode(Node& node) {
    if (!Runs(node)) {
      std::vector<size_t> living = LivingCoordinators();
      if (!node.alive && !living.empty()) TellExit(living[Pick(living.size())], node);
      return;
    }
    std::vector<size_t> living = LivingCoordinators();
    uint32_t what = Pick(20);
    if (what < 8) {
      bool moves = node.connection == 0 || (rules_.strict && Pick(2) == 0);
      if (moves && !living.empty()) Connect(node, living[Pick(living.size())]);
    } else if (what < 10) {
      for (uint32_t i = Pick(3); i < 3; ++i) Accuse(node);
    } else if (what < 11) {
      CrashNode(node);
    } else if (what < 12 && node.connection != 0) {
      CloseAtNode(node);
    } else if (what < 18 && node.join.role == Role::kWorker && node.membership->IsMember()) {
      if (!std::exchange(node.synced, true) && node.connection != 0) {
        links_[node.connection].to_coordinator.push_back(node.membership->NextSync());
      }
    }
  }

  void Step() {
    uint32_t what = Pick(100);
    std::vector<size_t> living = LivingCoordinators();
    if (what < 68) {
      Deliver();
    } else if (what < 88) {
      StepOfNode(nodes_[Pick(nodes_.size())]);
    } else if (what < 92) {
      if (!living.empty()) Tick(*processes_[living[Pick(living.size())]]->machine);
    } else if (what < 93) {
      if (!living.empty()) CrashCoordinator(living[Pick(living.size())]);
    } else if (what < 99) {
      if (living.size() < (rules_.strict ? 2u : 1u)) StartCoordinator();
    } else if (nodes_.size() < 12) {
      StartAnother(Pick(2) == 0 ? Role::kWorker : Role::kServer);
    }
  }

  // Gives all processes one coordinator that they can reach, and a launcher that tells of every
  // exit. Then all agree in the end, if enough are left.
  void Heal() {
    if (LivingCoordinators().empty()) StartCoordinator();
    size_t last = LivingCoordinators().front();
    for (int i = 0; i < 30 && !over_ && wrong_.empty(); ++i) {
      for (Node& node : nodes_) {
        if (Runs(node) && node.connection == 0) Connect(node, last);
        if (node.alive && !Runs(node)) CrashNode(node);  // an evicted process stops
        if (!node.alive && !over_) TellExit(last, node);
      }
      Settle();
      if (!over_) Tick(*processes_[last]->machine);
    }
    if (over_ || !wrong_.empty()) return;
    Incarnations running;
    const wire::View* latest = nullptr;
    for (const Node& node : nodes_) {
      if (!Runs(node)) continue;
      running.insert(node.join.incarnation);
      const wire::View& view = node.membership->view();
      if (latest == nullptr || view.epoch > latest->epoch) latest = &view;
    }
    if (latest == nullptr || !IsReadQuorum(*latest, running)) return;
    const Coordinator& coordinator = *processes_[last]->machine;
    // The promised view may leave too few members to go on. Such a job ends.
    stuck_ = coordinator.recovering();
    if (stuck_) return;
    for (const Node& node : nodes_) {
      if (!Runs(node) || !node.membership->IsMember()) continue;
      if (node.membership->view() == coordinator.view()) continue;
      wrong_ = NameOf(node) + " is in epoch " + std::to_string(node.membership->view().epoch) +
               ", the coordinator in " + std::to_string(coordinator.epoch()) + ", for good";
    }
  }

  const WorldRules rules_;
  std::mt19937_64 random_;
  Time now_{};
  uint32_t worker_count_ = 0;
  uint32_t server_count_ = 0;
  bool pairs_ = false;
  std::vector<Node> nodes_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::map<uint64_t, Link> links_;
  uint64_t next_link_ = 100;
  std::map<uint64_t, std::vector<std::pair<size_t, wire::View>>> held_;
  uint64_t epoch_max_ = 0;
  bool over_ = false;
  bool stuck_ = false;
  std::string wrong_;
};

}  // namespace

WorldResult RunWorld(uint64_t seed, const WorldRules& rules, int steps) {
  World world(seed, rules);
  std::string wrong = world.Run(steps);
  return {wrong, world.over(), world.stuck(), world.epochs()};
}

}  // namespace byteps::protocol
