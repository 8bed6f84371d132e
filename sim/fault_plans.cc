#include "sim/fault_plans.h"

#include "sim/fault_parts.h"
#include "sim/histories.h"

namespace byteps::sim {

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
