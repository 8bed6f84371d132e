// Histories in which coordinators are lost in the middle of a change, are two, or sleep.
#include <algorithm>

#include "sim/fault_parts.h"
#include "sim/histories.h"

namespace byteps::sim {
namespace {

// Makes three workers and two servers on even links, and no late ones. So it is clear which members
// are a majority.
void MakeFive(Dice& dice, FaultScript& script) {
  MakeLarge(dice, script);
  ClusterOptions& cluster = script.cluster;
  cluster.late_workers = 0;
  cluster.worker_hosts.resize(3);
  script.pause.resize(3);
  script.order.resize(3);
  cluster.servers.resize(2);
  cluster.network.jitter_max = Duration::zero();
  std::fill(cluster.host_links.begin(), cluster.host_links.end(), 1e8);
}

constexpr uint32_t kFive = 5;

// Adds a fault at a node. Nodes are workers, then servers.
FaultEvent& AddAtNode(FaultScript& script, const FaultEvent& trigger, Fault of_worker,
                      Fault of_server, uint32_t node, Duration at, Dice& dice) {
  bool worker = node < Workers(script);
  return Add(script, trigger, worker ? of_worker : of_server,
             worker ? node : node - Workers(script), at, dice);
}

FaultEvent& Accuse(FaultScript& script, const FaultEvent& trigger, uint32_t node, Duration at,
                   Dice& dice) {
  return AddAtNode(script, trigger, Fault::kAccuseWorker, Fault::kAccuseServer, node, at, dice);
}

}  // namespace

// The coordinator is lost in the middle of a change that few members know, and these are away when
// another coordinator asks.
void Interregnum(Dice& dice, FaultScript& script) {
  MakeLarge(dice, script);
  static constexpr Fault kCauses[] = {Fault::kAccuseServer, Fault::kAccuseWorker,
                                      Fault::kKillServer, Fault::kKillWorker};
  FaultEvent cause = FaultOf(kCauses[dice.Below(4)], dice, script);
  cause.at = dice.Between(Duration::zero(), milliseconds(10));
  cause.told = true;
  script.events.push_back(cause);
  if (dice.OneIn(2)) {
    FaultEvent lag = FaultOf(Fault::kLag, dice, script);
    lag.at = Duration::zero();
    script.events.push_back(lag);
  }
  Moment moment = dice.OneIn(3) ? Moment::kProposed : Moment::kApplied;
  auto nth = static_cast<uint32_t>(dice.From(1, 3));
  auto add = [&](Fault fault, Target target) -> FaultEvent& {
    FaultEvent event = After(moment, nth, fault, target, dice, script);
    event.at = Duration::zero();
    event.told = true;
    script.events.push_back(event);
    return script.events.back();
  };
  add(Fault::kKillCoordinator, Target::kHere).lasts =
      dice.Between(milliseconds(2), milliseconds(60));
  bool server = dice.OneIn(2);
  add(server ? Fault::kFreezeServer : Fault::kFreezeWorker, Target::kHere).lasts =
      dice.Between(milliseconds(200), milliseconds(2500));
  if (!dice.OneIn(3)) {
    add(dice.OneIn(2) ? Fault::kKillServer : Fault::kKillWorker, Target::kNext);
  }
}

// A view comes into force with barely enough promises. Only one of the members that promised lives
// on, and it is away when another coordinator asks the others, which do not know the view.
void LateMajority(Dice& dice, FaultScript& script) {
  MakeLarge(dice, script);
  uint32_t workers = Workers(script) - script.cluster.late_workers;
  uint32_t servers = Servers(script);
  uint32_t heard = (workers + servers) / 2;  // a majority, together with the first one's vote
  Duration cut = dice.Between(milliseconds(30), milliseconds(80));
  auto add = [&](Fault fault, uint32_t whom) -> FaultEvent& {
    return Add(script, FaultEvent{}, fault, whom, milliseconds(30), dice);
  };
  add(Fault::kKillServer, servers - 1).lasts = kForEver;
  for (uint32_t node = heard; node < workers + servers - 1; ++node) {
    uint32_t past_late = node < workers ? 0 : script.cluster.late_workers;
    add(Fault::kCutControl, node + past_late).lasts = cut;
  }
  // The keeper is the last member that learns of the view; workers come first.
  uint32_t keeper = std::min(heard, workers) - 1;
  FaultEvent trigger = Trigger(Moment::kApplied, 1, keeper);
  Add(script, trigger, Fault::kKillCoordinator, 0, dice.Between(Duration::zero(), milliseconds(1)),
      dice)
      .lasts = dice.Between(milliseconds(5), milliseconds(60));
  Add(script, trigger, Fault::kFreezeWorker, keeper, Duration::zero(), dice).lasts =
      dice.Between(milliseconds(300), milliseconds(800));
  for (uint32_t worker = 0; worker < keeper; ++worker) {
    Add(script, trigger, Fault::kKillWorker, worker, Duration::zero(), dice);
  }
}

// Two views follow one another. Of the members that know the second view only worker 1 lives.
// Worker 2 has promised the first view and knows no more; the servers know neither view. Another
// coordinator asks worker 2 and the servers before worker 1 is back.
void Overtaken(Dice& dice, FaultScript& script) {
  MakeFive(dice, script);
  Duration latency = script.cluster.network.latency;
  Duration begin = milliseconds(10);
  Duration away = dice.Between(milliseconds(20), milliseconds(80));
  uint32_t first = dice.OneIn(2) ? 3 : 4;
  uint32_t second = 3 + 4 - first;
  FaultEvent start;
  for (uint32_t server : {3u, 4u}) {
    Add(script, start, Fault::kCutControl, server, begin, dice).lasts = away;
  }
  Accuse(script, start, first, begin + latency, dice);
  // The cut comes when the promise of worker 2 has arrived, and before the answer comes back.
  Add(script, Trigger(Moment::kProposed, 1, 2), Fault::kCutControl, 2, latency * 3 / 2, dice)
      .lasts = away;
  Accuse(script, Trigger(Moment::kApplied, 1, 1), second, Duration::zero(), dice);
  FaultEvent end = Trigger(Moment::kApplied, 2, 1);
  Add(script, end, Fault::kKillCoordinator, 0, Duration::zero(), dice).lasts =
      dice.Between(milliseconds(1), milliseconds(30));
  Add(script, end, Fault::kKillWorker, 0, Duration::zero(), dice).lasts = kForEver;
  Add(script, end, Fault::kCutControl, 1, Duration::zero(), dice).lasts =
      dice.Between(milliseconds(200), milliseconds(800));
}

// Three of five members find a second coordinator, which drops one of the other two. Two of the
// three end, and the first coordinator learns that. Some may find the first coordinator again.
void TwoCoordinators(Dice& dice, FaultScript& script) {
  MakeFive(dice, script);
  script.cluster.strict = true;
  std::vector<uint32_t> nodes = {1, 2, 3, 4};
  std::shuffle(nodes.begin(), nodes.end(), dice.engine());
  nodes.insert(nodes.begin(), 0);  // it accuses
  FaultEvent rival = FaultOf(Fault::kRival, dice, script);
  rival.at = dice.Between(Duration::zero(), milliseconds(20));
  rival.lasts = dice.Between(milliseconds(200), milliseconds(1500));
  rival.b = 1u << nodes[0] | 1u << nodes[1] | 1u << nodes[2];
  script.events.push_back(rival);
  FaultEvent start;
  Duration at = rival.at + dice.Between(milliseconds(22), milliseconds(80));
  Accuse(script, start, nodes[3 + dice.Below32(2)], at, dice);
  at += dice.Between(milliseconds(1), milliseconds(30));
  if (dice.OneIn(2)) {
    FaultEvent again = rival;
    again.at = at;
    again.b = dice.Below32(1u << kFive);
    script.events.push_back(again);
    if (dice.OneIn(2)) return;
  }
  at += dice.Between(milliseconds(0), milliseconds(30));
  for (uint32_t i = 0; i < 2; ++i) {
    AddAtNode(script, start, Fault::kKillWorker, Fault::kKillServer, nodes[i], at, dice).lasts =
        kForEver;
  }
}

// The coordinator doubts a member that lives, or its clock jumps, and it is stopped again and
// again.
void Sleeper(Dice& dice, FaultScript& script) {
  static constexpr Fault kCauses[] = {Fault::kCutData, Fault::kClock, Fault::kCutControl};
  FaultEvent cause = FaultOf(kCauses[dice.Below(3)], dice, script);
  if (cause.fault == Fault::kClock) cause.a = Workers(script) + Servers(script);
  script.events.push_back(cause);
  Duration at = cause.at;
  for (uint64_t stops = dice.From(1, 3); stops > 0; --stops) {
    FaultEvent stop = FaultOf(Fault::kFreezeCoordinator, dice, script);
    // The stop is longer than the time for which it doubts that most members are gone.
    if (dice.OneIn(3)) stop.lasts = dice.Between(seconds(12), seconds(15));
    at += dice.OneIn(2) ? Soon(dice) : dice.Between(milliseconds(0), milliseconds(120));
    stop.at = at;
    at += stop.lasts;
    script.events.push_back(stop);
  }
}

}  // namespace byteps::sim
