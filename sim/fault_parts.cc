#include "sim/fault_parts.h"

namespace byteps::sim {
namespace {

Duration HowLong(Dice& dice) {
  switch (dice.Below(3)) {
    case 0: return dice.Between(milliseconds(1), milliseconds(30));
    case 1: return dice.Between(milliseconds(30), milliseconds(600));
    default: return dice.Between(milliseconds(900), milliseconds(3500));
  }
}

HostId AddHost(Dice& dice, ClusterOptions& cluster) {
  cluster.host_links.push_back(dice.OneIn(4) ? 2e5 : 1e8);
  return static_cast<HostId>(cluster.host_links.size() - 1);
}

}  // namespace

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

Duration Soon(Dice& dice) {
  switch (dice.Below(4)) {
    case 0: return Duration::zero();
    case 1: return dice.Between(microseconds(1), microseconds(800));
    case 2: return dice.Between(microseconds(100), milliseconds(5));
    default: return dice.Between(milliseconds(1), milliseconds(40));
  }
}

Moment SomeMoment(Dice& dice) { return static_cast<Moment>(dice.From(1, kMomentCount - 1)); }

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
    case Fault::kMove:
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

FaultEvent After(Moment moment, uint32_t nth, Fault fault, Target target, Dice& dice,
                 const FaultScript& script) {
  FaultEvent event = FaultOf(fault, dice, script);
  event.moment = moment;
  event.nth = nth;
  event.target = target;
  event.at = dice.OneIn(2) ? Duration::zero() : Soon(dice);
  return event;
}

void MakeTwoServers(Dice& dice, ClusterOptions& cluster) {
  while (cluster.servers.size() < 2) cluster.servers.push_back({AddHost(dice, cluster), 1});
}

void MakeLarge(Dice& dice, FaultScript& script) {
  ClusterOptions& cluster = script.cluster;
  MakeTwoServers(dice, cluster);
  while (cluster.worker_hosts.size() < 3 + cluster.late_workers) {
    cluster.worker_hosts.push_back(AddHost(dice, cluster));
    script.pause.push_back(Duration::zero());
    script.order.push_back(script.order.front());
  }
}

void MakeOneTensor(Dice& dice, FaultScript& script) {
  script.tensors.resize(1);
  script.tensors[0].op = dice.OneIn(2) ? wire::Op::kSum : wire::Op::kAverage;
  script.tensors[0].elements = static_cast<uint32_t>(dice.From(1, 8));
  for (std::vector<uint32_t>& order : script.order) order = {0};
}

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

}  // namespace byteps::sim
