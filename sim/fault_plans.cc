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

// Enough members that a job survives the loss of two of them.
void MakeLarge(Dice& dice, FaultScript& script) {
  ClusterOptions& cluster = script.cluster;
  auto add_host = [&] {
    cluster.host_links.push_back(dice.OneIn(4) ? 2e5 : 1e8);
    return static_cast<HostId>(cluster.host_links.size() - 1);
  };
  while (cluster.servers.size() < 2) cluster.servers.push_back({add_host(), 1});
  while (cluster.worker_hosts.size() < 3 + cluster.late_workers) {
    cluster.worker_hosts.push_back(add_host());
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
  auto other = static_cast<Fault>(dice.Below(kFaultCount));
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
    auto other = static_cast<Fault>(dice.Below(kFaultCount));
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
  if (dice.OneIn(3)) add(static_cast<Fault>(dice.Below(kFaultCount)));
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
  auto first = static_cast<Fault>(pair % kFaultCount);
  auto second = static_cast<Fault>(pair / kFaultCount % kFaultCount);
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
      OwnerLost, StableForSome, MovedAndBack, GivenUp, AnswerWithheld, Zombie, Leaver, Interregnum};
  kHistories[dice.Below(std::size(kHistories))](dice, script);
}

}  // namespace byteps::sim
