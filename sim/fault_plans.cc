#include "sim/fault_plans.h"

#include <algorithm>

namespace byteps::sim {
namespace {

uint32_t Workers(const FaultScript& script) {
  return static_cast<uint32_t>(script.cluster.worker_hosts.size());
}
uint32_t Servers(const FaultScript& script) {
  return static_cast<uint32_t>(script.cluster.servers.size());
}
uint32_t Shards(const FaultScript& script) {
  uint32_t shards = 0;
  for (const ServerPlace& place : script.cluster.servers) shards += place.shards;
  return shards;
}

Duration HowLong(Dice& dice) {
  switch (dice.Below(3)) {
    case 0: return dice.Between(milliseconds(1), milliseconds(30));
    case 1: return dice.Between(milliseconds(30), milliseconds(600));
    default: return dice.Between(milliseconds(900), milliseconds(3500));
  }
}

// How long after another thing: at once, within a message's way, within a round, later.
Duration Soon(Dice& dice) {
  switch (dice.Below(4)) {
    case 0: return Duration::zero();
    case 1: return dice.Between(microseconds(1), microseconds(800));
    case 2: return dice.Between(microseconds(100), milliseconds(5));
    default: return dice.Between(milliseconds(1), milliseconds(40));
  }
}

Moment SomeMoment(Dice& dice) { return static_cast<Moment>(dice.From(1, kMomentCount - 1)); }

// A fault of this kind right after a moment of the protocol.
FaultEvent After(Moment moment, uint32_t nth, Fault fault, Target target, Dice& dice,
                 const FaultScript& script) {
  FaultEvent event = FaultOf(fault, dice, script);
  event.moment = moment;
  event.nth = nth;
  event.target = target;
  event.at = dice.OneIn(2) ? Duration::zero() : Soon(dice);
  return event;
}

HostId AddHost(Dice& dice, ClusterOptions& cluster) {
  cluster.host_links.push_back(dice.OneIn(4) ? 2e5 : 1e8);
  return static_cast<HostId>(cluster.host_links.size() - 1);
}

void MakeTwoServers(Dice& dice, ClusterOptions& cluster) {
  while (cluster.servers.size() < 2) cluster.servers.push_back({AddHost(dice, cluster), 1});
}

// Enough members that a job survives the loss of two of them.
void MakeLarge(Dice& dice, FaultScript& script) {
  ClusterOptions& cluster = script.cluster;
  MakeTwoServers(dice, cluster);
  while (cluster.worker_hosts.size() < 3 + cluster.late_workers) {
    cluster.worker_hosts.push_back(AddHost(dice, cluster));
    script.pause.push_back(Duration::zero());
    script.order.push_back(script.order.front());
  }
}

// The owner is lost when some worker has an answer and others have not (histories B and G).
void OwnerLost(Dice& dice, FaultScript& script) {
  static constexpr Moment kMoments[] = {Moment::kAnswerArrived, Moment::kStableArrived,
                                        Moment::kAnswerArrived, Moment::kVerdictArrived};
  Moment moment = kMoments[dice.Below(4)];
  auto nth = static_cast<uint32_t>(dice.From(1, 12));
  bool dies = dice.OneIn(2);
  script.events.push_back(After(moment, nth, dies ? Fault::kKillServer : Fault::kAccuseServer,
                                Target::kHere, dice, script));
  script.events.back().at = Duration::zero();
  auto other = static_cast<Fault>(dice.Below(kAnyJobFaultCount));
  Target target = dice.OneIn(2) ? Target::kHere : Target::kNext;
  script.events.push_back(After(moment, nth, other, target, dice, script));
}

// One worker knows that a round is stable and pushes the next one; another one does not know it
// yet, and the owner is lost.
void StableForSome(Dice& dice, FaultScript& script) {
  MakeLarge(dice, script);
  ClusterOptions& cluster = script.cluster;
  uint32_t fast = dice.Below32(Workers(script));
  for (uint32_t w = 0; w < Workers(script); ++w) {
    script.pause[w] =
        w == fast ? Duration::zero() : dice.Between(milliseconds(4), milliseconds(30));
    cluster.host_links[cluster.worker_hosts[w]] = w == fast ? (dice.OneIn(2) ? 2e5 : 4e4) : 1e8;
  }
  auto nth = static_cast<uint32_t>(dice.From(1, 6));
  script.events.push_back(
      After(Moment::kStableArrived, nth, Fault::kKillServer, Target::kHere, dice, script));
  script.events.back().by = fast;
  script.events.back().told = true;
  script.events.back().at = dice.Between(Duration::zero(), microseconds(500));
}

// Pieces go to another server, come back, and go again, while some members lag behind.
void MovedAndBack(Dice& dice, FaultScript& script) {
  MakeLarge(dice, script);
  script.cluster.restart_pause = dice.Between(milliseconds(1), milliseconds(20));
  uint32_t moving = dice.Below32(Servers(script));
  Duration at = dice.Between(milliseconds(0), milliseconds(30));
  for (uint64_t i = dice.From(2, 4); i > 0; --i) {
    FaultEvent event =
        FaultOf(dice.OneIn(3) ? Fault::kKillServer : Fault::kAccuseServer, dice, script);
    event.at = at;
    event.lasts = dice.Between(milliseconds(1), milliseconds(20));
    event.a = moving;
    event.told = true;
    script.events.push_back(event);
    at += script.cluster.restart_pause + dice.Between(milliseconds(0), milliseconds(15));
  }
  uint32_t lagging = dice.Below32(Workers(script));
  static constexpr Fault kLags[] = {Fault::kCutControl, Fault::kLag, Fault::kFreezeWorker,
                                    Fault::kJitter};
  FaultEvent lag = FaultOf(kLags[dice.Below(4)], dice, script);
  lag.a = lagging;
  lag.at = dice.Between(Duration::zero(), at);
  lag.lasts = dice.Between(milliseconds(5), milliseconds(90));
  script.events.push_back(lag);
  if (!dice.OneIn(3)) return;
  FaultEvent late = lag;  // the others wait for a worker that dies
  late.fault = Fault::kKillWorker;
  late.a = (lagging + 1) % Workers(script);
  late.at = dice.Between(Duration::zero(), at);
  script.events.push_back(late);
}

// A user gives up while others have the sum, or have not got it, and the owner is lost.
void GivenUp(Dice& dice, FaultScript& script) {
  MakeLarge(dice, script);
  static constexpr Moment kMoments[] = {Moment::kAnswerArrived, Moment::kPushArrived,
                                        Moment::kAnswerArrived, Moment::kAbortArrived};
  Moment moment = kMoments[dice.Below(4)];
  auto nth = static_cast<uint32_t>(dice.From(1, 10));
  if (moment == Moment::kAbortArrived) {
    FaultEvent first = FaultOf(Fault::kAbort, dice, script);
    first.at = dice.Between(Duration::zero(), milliseconds(10));
    script.events.push_back(first);
    nth = 1;
  }
  auto add = [&](Fault fault, Target target) {
    script.events.push_back(After(moment, nth, fault, target, dice, script));
  };
  add(Fault::kAbort, dice.OneIn(2) ? Target::kHere : Target::kNext);
  static constexpr Fault kLags[] = {Fault::kFreezeWorker, Fault::kLag, Fault::kCutOneWay,
                                    Fault::kCutControl, Fault::kCutData};
  Fault lag = kLags[dice.Below(5)];
  if (!dice.OneIn(4)) {
    add(lag, dice.OneIn(2) ? Target::kHere : Target::kNext);
    script.events.back().at = Duration::zero();
    if (lag == Fault::kCutControl) script.events.back().lasts = milliseconds(60);
    if (lag == Fault::kCutOneWay) script.events.back().c = 1;
  }
  if (!dice.OneIn(4)) {
    add(dice.OneIn(2) ? Fault::kKillServer : Fault::kAccuseServer, Target::kHere);
    script.events.back().told = true;
  }
}

// The answer to one worker is held up while another one goes on, gives the next round up, and then
// the owner is lost.
void AnswerWithheld(Dice& dice, FaultScript& script) {
  MakeLarge(dice, script);
  script.rounds = std::max(script.rounds, 3u);
  uint32_t behind = dice.Below32(Workers(script));
  auto nth = static_cast<uint32_t>(dice.From(1, 6));
  auto add = [&](Fault fault, Duration at) -> FaultEvent& {
    FaultEvent event = After(Moment::kPushArrived, nth, fault, Target::kHere, dice, script);
    event.by = behind;
    event.at = at;
    script.events.push_back(event);
    return script.events.back();
  };
  FaultEvent& cut = add(Fault::kCutOneWay, Duration::zero());
  cut.c = 1;
  cut.lasts = dice.Between(milliseconds(20), milliseconds(800));
  FaultEvent& abort = add(Fault::kAbort, dice.Between(microseconds(300), milliseconds(30)));
  abort.target = dice.OneIn(4) ? Target::kHere : Target::kNext;
  FaultEvent& end = add(dice.OneIn(2) ? Fault::kKillServer : Fault::kAccuseServer,
                        abort.at + dice.Between(milliseconds(0), milliseconds(20)));
  end.told = true;
}

// Somebody is left behind while it works, and goes on in its old view for a while.
void Zombie(Dice& dice, FaultScript& script) {
  MakeLarge(dice, script);
  Moment moment = SomeMoment(dice);
  auto nth = static_cast<uint32_t>(dice.From(1, 12));
  bool worker = dice.OneIn(2);
  Target target = dice.OneIn(2) ? Target::kHere : Target::kNext;
  script.events.push_back(After(moment, nth, worker ? Fault::kAccuseWorker : Fault::kAccuseServer,
                                target, dice, script));
  uint32_t server = script.events.back().a;
  FaultEvent lag = After(moment, nth, Fault::kLag, target, dice, script);
  if (!worker) lag.a = Workers(script) + server;
  lag.at = Duration::zero();
  script.events.push_back(lag);
  if (dice.OneIn(2)) {
    auto other = static_cast<Fault>(dice.Below(kAnyJobFaultCount));
    script.events.push_back(After(moment, nth, other, Target::kNext, dice, script));
  }
}

// A worker leaves with its last answer in its hands, and the owner is lost.
void Leaver(Dice& dice, FaultScript& script) {
  MakeLarge(dice, script);
  uint32_t leaver = dice.Below32(Workers(script) - script.cluster.late_workers);
  FaultEvent leave = FaultOf(Fault::kLeave, dice, script);
  leave.a = leaver;
  leave.at = dice.Between(Duration::zero(), milliseconds(20));
  script.events.push_back(leave);
  static constexpr Moment kMoments[] = {Moment::kAnswerArrived, Moment::kHandedOver};
  auto add = [&](Fault fault) {
    FaultEvent event = After(kMoments[dice.Below(2)], static_cast<uint32_t>(dice.From(1, 10)),
                             fault, Target::kHere, dice, script);
    event.by = leaver;
    event.told = true;
    script.events.push_back(event);
  };
  // It leaves after this very round; nobody else has the answer yet.
  uint32_t operation = static_cast<uint32_t>(dice.From(1, 8));
  if (dice.OneIn(2)) {
    script.events.front().moment = Moment::kAnswerArrived;
    script.events.front().nth = operation;
    script.events.front().by = leaver;
    script.events.front().at = Duration::zero();
  }
  add(dice.OneIn(2) ? Fault::kKillServer : Fault::kAccuseServer);
  if (dice.OneIn(2)) {
    script.events.back().moment = Moment::kAnswerArrived;
    script.events.back().nth = operation;
    script.events.back().at = dice.Between(Duration::zero(), microseconds(300));
  }
  if (dice.OneIn(3)) add(static_cast<Fault>(dice.Below(kAnyJobFaultCount)));
}

// The coordinator is lost in the middle of a change that few have heard of, and these are away when
// another one asks.
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

// So that a round of it has no other cause to wait.
void MakeOneTensor(Dice& dice, FaultScript& script) {
  script.tensors.resize(1);
  script.tensors[0].op = dice.OneIn(2) ? wire::Op::kSum : wire::Op::kAverage;
  script.tensors[0].elements = static_cast<uint32_t>(dice.From(1, 8));
  for (std::vector<uint32_t>& order : script.order) order = {0};
}

// Adds a fault that comes this long after the `nth` time of something.
FaultEvent& Add(FaultScript& script, const FaultEvent& trigger, Fault fault, uint32_t whom,
                Duration at, Dice& dice) {
  FaultEvent event = FaultOf(fault, dice, script);
  event.moment = trigger.moment;
  event.nth = trigger.nth;
  event.by = trigger.by;
  event.at = at;
  event.a = whom;
  event.told = true;
  script.events.push_back(event);
  return script.events.back();
}

FaultEvent Trigger(Moment moment, uint64_t nth, uint32_t by) {
  FaultEvent trigger;
  trigger.moment = moment;
  trigger.nth = static_cast<uint32_t>(nth);
  trigger.by = by;
  return trigger;
}

// A piece comes to this server, goes home, and comes back while one member hears of nothing. What
// that member had pushed is gone.
void MovedWhileAway(Dice& dice, FaultScript& script) {
  MakeLarge(dice, script);
  uint32_t all = Workers(script) - script.cluster.late_workers;
  uint32_t away = dice.Below32(all);
  for (Duration& pause : script.pause) pause = Duration::zero();
  script.pause[(away + 1) % all] = dice.Between(milliseconds(90), milliseconds(150));
  script.cluster.network.jitter_max = Duration::zero();
  uint32_t moving = dice.Below32(Servers(script));
  FaultEvent trigger = Trigger(Moment::kPushArrived, dice.From(1, 5), away);
  Duration back = dice.Between(milliseconds(14), milliseconds(25));
  Add(script, trigger, Fault::kKillServer, moving, Duration::zero(), dice).lasts = back;
  Duration cut = dice.Between(milliseconds(6), back);
  Add(script, trigger, Fault::kCutControl, away, cut, dice).lasts =
      dice.Between(milliseconds(45), milliseconds(85));
  Duration gone = back + dice.Between(milliseconds(4), milliseconds(20));
  Add(script, trigger, Fault::kKillServer, moving, gone, dice).lasts = kForEver;
}

// All but one know that a round is stable. A push of the next one is with the new owner, and what
// its sender knows is still on its way, when the one that is behind tells that owner the verdict.
void VerdictAfterPush(Dice& dice, FaultScript& script) {
  MakeTwoServers(dice, script.cluster);
  MakeOneTensor(dice, script);
  script.rounds = std::max(script.rounds, 4u);
  ClusterOptions& cluster = script.cluster;
  uint32_t behind = dice.Below32(Workers(script) - cluster.late_workers);
  for (uint32_t w = 0; w < Workers(script); ++w) {
    script.pause[w] = w == behind ? dice.Between(milliseconds(60), milliseconds(120))
                                  : dice.Between(Duration::zero(), milliseconds(3));
  }
  FaultEvent trigger = Trigger(Moment::kAnswerArrived, dice.From(1, 3), behind);
  FaultEvent& cut = Add(script, trigger, Fault::kCutOneWay, behind, Duration::zero(), dice);
  cut.target = Target::kHere;
  cut.c = 1;
  cut.lasts = dice.Between(milliseconds(100), milliseconds(800));
  Duration dies = dice.Between(milliseconds(10), milliseconds(50));
  Add(script, trigger, Fault::kLag, behind, dies, dice).lasts =
      dice.Between(milliseconds(30), milliseconds(160));
  FaultEvent& end = Add(script, trigger, Fault::kKillServer, 0, dies, dice);
  end.target = Target::kHere;
  end.lasts = kForEver;  // a successor would have all said again
  for (uint32_t w = 0; w < Workers(script); ++w) {
    for (uint32_t shard = 0; w != behind && shard < Shards(script); ++shard) {
      FaultEvent& jitter = Add(script, trigger, Fault::kJitter, w, dies, dice);
      jitter.b = shard;
      jitter.lasts = dice.Between(milliseconds(150), milliseconds(800));
    }
  }
}

// One worker has the first sum and hears of no view; the others have not got it, and one of them
// gives it up at the new owner.
void SumInOneHand(Dice& dice, FaultScript& script) {
  MakeLarge(dice, script);
  MakeOneTensor(dice, script);
  uint32_t all = Workers(script) - script.cluster.late_workers;
  uint32_t holder = dice.Below32(all);
  for (uint32_t other = 0; other < all; ++other) {
    if (other == holder) continue;
    FaultEvent& cut = Add(script, Trigger(Moment::kPushArrived, 1, other), Fault::kCutOneWay, other,
                          Duration::zero(), dice);
    cut.target = Target::kHere;
    cut.c = 1;
    cut.lasts = dice.Between(milliseconds(80), milliseconds(800));
  }
  FaultEvent trigger = Trigger(Moment::kAnswerArrived, 1, holder);
  FaultEvent& end = Add(script, trigger, Fault::kKillServer, 0, Duration::zero(), dice);
  end.target = Target::kHere;
  if (dice.OneIn(2)) end.lasts = kForEver;
  Add(script, trigger, Fault::kCutControl, holder, Duration::zero(), dice).lasts =
      dice.Between(milliseconds(40), milliseconds(90));
  Duration late = dice.Between(milliseconds(1), milliseconds(25));
  Add(script, trigger, Fault::kAbort, (holder + 1) % all, late, dice);
}

// A view comes into force with the promises of barely enough, of whom only one lives on and is away
// when another coordinator asks the others, who never heard of it.
void LateMajority(Dice& dice, FaultScript& script) {
  MakeLarge(dice, script);
  uint32_t workers = Workers(script) - script.cluster.late_workers;
  uint32_t servers = Servers(script);
  uint32_t heard = (workers + servers) / 2;  // the first of them have the first one's vote
  Duration cut = dice.Between(milliseconds(30), milliseconds(80));
  auto add = [&](Fault fault, uint32_t whom) -> FaultEvent& {
    return Add(script, FaultEvent{}, fault, whom, milliseconds(30), dice);
  };
  add(Fault::kKillServer, servers - 1).lasts = kForEver;
  for (uint32_t node = heard; node < workers + servers - 1; ++node) {
    uint32_t past_late = node < workers ? 0 : script.cluster.late_workers;
    add(Fault::kCutControl, node + past_late).lasts = cut;
  }
  // The last to hear of it; workers come first.
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

// Three workers and two servers on even links, and nobody comes later: who has a majority is plain.
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

FaultEvent& Accuse(FaultScript& script, const FaultEvent& trigger, uint32_t node, Duration at,
                   Dice& dice) {
  bool worker = node < Workers(script);
  return Add(script, trigger, worker ? Fault::kAccuseWorker : Fault::kAccuseServer,
             worker ? node : node - Workers(script), at, dice);
}

// Two views follow one another. Only worker 1 lives that knows of the second; worker 2 has promised
// the first and heard no more, the servers have heard of neither. Another coordinator asks these
// before worker 1 is back.
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
  // When its promise has arrived, and what follows has not come back.
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

// Three of five find a second coordinator, which drops one of the others; two of the three end, and
// the first coordinator hears of that. Some may find the first one again.
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
    bool worker = nodes[i] < Workers(script);
    Add(script, start, worker ? Fault::kKillWorker : Fault::kKillServer,
        worker ? nodes[i] : nodes[i] - Workers(script), at, dice)
        .lasts = kForEver;
  }
}

// The coordinator doubts somebody who lives, or its clock jumps, and it is stopped again and again.
void Sleeper(Dice& dice, FaultScript& script) {
  static constexpr Fault kCauses[] = {Fault::kCutData, Fault::kClock, Fault::kCutControl};
  FaultEvent cause = FaultOf(kCauses[dice.Below(3)], dice, script);
  if (cause.fault == Fault::kClock) cause.a = Workers(script) + Servers(script);
  script.events.push_back(cause);
  Duration at = cause.at;
  for (uint64_t stops = dice.From(1, 3); stops > 0; --stops) {
    FaultEvent stop = FaultOf(Fault::kFreezeCoordinator, dice, script);
    at += dice.OneIn(2) ? Soon(dice) : dice.Between(milliseconds(0), milliseconds(120));
    stop.at = at;
    at += stop.lasts;
    script.events.push_back(stop);
  }
}

}  // namespace

FaultEvent FaultOf(Fault fault, Dice& dice, const FaultScript& script) {
  uint32_t workers = Workers(script);
  uint32_t servers = Servers(script);
  FaultEvent event;
  event.fault = fault;
  event.at = dice.Between(milliseconds(0), milliseconds(dice.OneIn(3) ? 400 : 25));
  event.lasts = HowLong(dice);
  event.a = dice.Below32(workers);
  event.b = dice.Below32(Shards(script));
  event.c = dice.Below32(2);
  event.told = dice.OneIn(2);
  switch (fault) {
    case Fault::kKillServer:
    case Fault::kFreezeServer:
    case Fault::kAccuseServer: event.a = dice.Below32(servers); break;
    case Fault::kCutControl:
    case Fault::kLag: event.a = dice.Below32(workers + servers); break;
    case Fault::kPartition:
    case Fault::kSlowLink:
    case Fault::kClock: event.a = dice.Below32(workers + servers + 1); break;
    case Fault::kLeave: event.a = dice.Below32(workers - script.cluster.late_workers); break;
    default: break;
  }
  return event;
}

void PlanPair(Dice& dice, uint64_t pair, FaultScript& script) {
  if (dice.OneIn(2)) MakeLarge(dice, script);
  auto first = static_cast<Fault>(pair % kAnyJobFaultCount);
  auto second = static_cast<Fault>(pair / kAnyJobFaultCount % kAnyJobFaultCount);
  Moment moment = SomeMoment(dice);
  auto nth = static_cast<uint32_t>(dice.From(1, 8));
  for (Fault fault : {first, second}) {
    auto target = static_cast<Target>(dice.Below(3));
    FaultEvent event = After(moment, nth, fault, target, dice, script);
    if (dice.OneIn(3)) {  // for those moments that come seldom
      event.moment = Moment::kBegin;
      event.target = Target::kNamed;
    }
    script.events.push_back(event);
  }
  bool joins = first == Fault::kJoin || second == Fault::kJoin;
  if (!joins || script.cluster.late_workers > 0) return;
  ClusterOptions& cluster = script.cluster;
  cluster.late_workers = 1;
  cluster.host_links.push_back(1e8);
  cluster.worker_hosts.push_back(static_cast<HostId>(cluster.host_links.size() - 1));
  script.pause.push_back(Duration::zero());
  script.order.push_back(script.order.front());
}

void PlanHistory(Dice& dice, FaultScript& script) {
  static constexpr void (*kHistories[])(Dice&, FaultScript&) = {
      OwnerLost,    StableForSome, MovedAndBack, GivenUp,        AnswerWithheld,
      Zombie,       Leaver,        Interregnum,  MovedWhileAway, VerdictAfterPush,
      SumInOneHand, LateMajority,  Sleeper,      Overtaken,      TwoCoordinators};
  kHistories[dice.Below(std::size(kHistories))](dice, script);
}

}  // namespace byteps::sim
