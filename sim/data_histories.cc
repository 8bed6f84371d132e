// Histories in which owners are lost, answers are late, and pieces move.
#include <algorithm>

#include "sim/fault_parts.h"
#include "sim/histories.h"

namespace byteps::sim {

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

// One worker knows that a round is stable and pushes the next one. Another worker does not know it
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

// A user gives up while others have the sum, or do not have it, and the owner is lost.
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

// The answer to one worker is late. Another worker goes on and gives the next round up, and then
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

// The answer to one worker is late while the others go on and disagree about the next round. Then
// its connection breaks, or the owner is lost. No other member goes, because some members may know
// the spec of a lost worker and others not.
void Disagreed(Dice& dice, FaultScript& script) {
  MakeLarge(dice, script);
  script.events.clear();
  script.cluster.overdue_after = milliseconds(2);
  uint32_t behind = dice.Below32(Workers(script));
  auto nth = static_cast<uint32_t>(dice.From(1, 4));
  uint32_t other = (behind + 1 + dice.Below32(Workers(script) - 1)) % Workers(script);
  script.disagreement = {.worker = other, .tensor = 0, .round = nth - 1 + dice.Below32(3)};
  script.rounds = std::max(script.rounds, script.disagreement->round + 2);
  auto add = [&](Fault fault, Duration at) -> FaultEvent& {
    FaultEvent event = After(Moment::kPushArrived, nth, fault, Target::kHere, dice, script);
    event.by = behind;
    event.at = at;
    script.events.push_back(event);
    return script.events.back();
  };
  FaultEvent& held_up = add(Fault::kCutOneWay, Duration::zero());
  held_up.c = 1;
  held_up.lasts = dice.Between(milliseconds(20), milliseconds(800));
  static constexpr Fault kEnds[] = {Fault::kCutData, Fault::kKillServer, Fault::kAccuseServer};
  add(kEnds[dice.Below(3)], dice.Between(milliseconds(1), milliseconds(40))).told = true;
}

// A member is left behind while it works, and goes on in its old view for a while.
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

// A worker leaves right after its last answer, which only it has, and the owner is lost.
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
  // The worker leaves after this round, when no other worker has the answer yet.
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

// A piece comes to this server, goes home, and comes back, while one member learns nothing of it.
// The push of that member is lost.
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

// All workers but one know that a round is stable. The new owner has a push of the next round, and
// the knowledge of the push's sender is still on its way. Then the worker that is behind tells the
// new owner the verdict.
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
  end.lasts = kForEver;  // all workers would repeat their messages to a successor
  for (uint32_t w = 0; w < Workers(script); ++w) {
    for (uint32_t shard = 0; w != behind && shard < Shards(script); ++shard) {
      FaultEvent& jitter = Add(script, trigger, Fault::kJitter, w, dies, dice);
      jitter.b = shard;
      jitter.lasts = dice.Between(milliseconds(150), milliseconds(800));
    }
  }
}

// One worker has the first sum and learns of no view. The others do not have the sum, and one of
// them gives it up at the new owner.
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

}  // namespace byteps::sim
