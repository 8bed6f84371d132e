// Makes random scripts of faults, and describes scripts in words.
#include <algorithm>

#include "sim/contributor_plans.h"
#include "sim/dice.h"
#include "sim/fault_parts.h"
#include "sim/fault_plans.h"
#include "sim/histories.h"
#include "src/operations/row.h"

namespace byteps::sim {
namespace {

FaultTensor RandomTensor(Dice& dice) {
  static constexpr wire::Op kOps[] = {
      wire::Op::kSum,           wire::Op::kSum,       wire::Op::kSum,     wire::Op::kAverage,
      wire::Op::kBroadcast,     wire::Op::kAllgather, wire::Op::kBarrier, wire::Op::kReducescatter,
      wire::Op::kReducescatter, wire::Op::kAlltoall};
  FaultTensor tensor;
  tensor.op = kOps[dice.Below(std::size(kOps))];
  bool reduces = tensor.op == wire::Op::kSum || tensor.op == wire::Op::kAverage;
  tensor.atomic = reduces && dice.OneIn(3);
  tensor.in_place = !dice.OneIn(3);
  tensor.elements = tensor.op == wire::Op::kBarrier ? 0 : static_cast<uint32_t>(dice.From(1, 40));
  return tensor;
}

// Adds process sets and a join, but not to jobs with late workers: the oracle knows the parts of a
// result only while the workers stay the same.
void AddRounds(Dice& dice, FaultScript& script) {
  auto workers = static_cast<uint32_t>(script.cluster.worker_hosts.size());
  if (script.cluster.late_workers > 0) {
    for (FaultTensor& tensor : script.tensors) {
      bool parts = tensor.op == wire::Op::kReducescatter || tensor.op == wire::Op::kAlltoall;
      if (parts) tensor.op = wire::Op::kSum;
    }
    return;
  }
  for (uint64_t sets = dice.Below(3); sets > 0; --sets) {
    std::vector<uint32_t> ranks;
    while (ranks.empty()) {
      for (uint32_t rank = 0; rank < workers; ++rank) {
        if (dice.OneIn(2)) ranks.push_back(rank);
      }
    }
    script.cluster.process_sets.push_back(std::move(ranks));
  }
  // All workers use the first tensor, so that all have something to do.
  for (size_t t = 1; t < script.tensors.size(); ++t) {
    FaultTensor& tensor = script.tensors[t];
    bool of_set = !script.cluster.process_sets.empty() && tensor.op != wire::Op::kBroadcast;
    if (of_set) tensor.process_set = dice.Below32(script.cluster.process_sets.size() + 1);
  }
  if (!dice.OneIn(3)) return;
  FaultTensor join;
  join.op = wire::Op::kJoin;
  join.elements = 0;
  script.tensors.push_back(join);
  for (auto& order : script.order) {
    order.push_back(static_cast<uint32_t>(script.tensors.size()) - 1);
  }
  for (uint32_t worker = 0; worker < workers; ++worker) {
    script.join_after.push_back(static_cast<uint32_t>(dice.From(1, script.rounds)));
  }
}

// Rolls hosts, links and latencies.
void BuildCluster(Dice& dice, ClusterOptions& cluster) {
  auto workers = static_cast<uint32_t>(dice.From(2, 4));
  auto servers = static_cast<uint32_t>(dice.From(1, 3));
  cluster.network.seed = dice.Below(UINT64_MAX);
  cluster.network.latency = dice.Between(microseconds(20), microseconds(400));
  if (dice.OneIn(3)) cluster.network.jitter_max = dice.Between(microseconds(10), milliseconds(2));
  cluster.network.timeout = milliseconds(900);
  cluster.network.drains = dice.OneIn(2);
  cluster.heartbeat = milliseconds(200);
  cluster.min_workers = 1;
  cluster.piece_bytes_max = 64;
  cluster.restart_pause = dice.Between(milliseconds(1), milliseconds(100));
  if (dice.OneIn(2)) cluster.credit_bytes = dice.From(1, 200);
  if (dice.OneIn(4))
    cluster.rounds_begin = (uint64_t{1} << (workers % 2 == 0 ? 24 : 32)) - dice.From(1, 6);
  HostId host = 0;
  auto add_host = [&] {
    cluster.host_links.push_back(dice.OneIn(4) ? 2e5 : 1e8);
    return host++;
  };
  cluster.coordinator_host = add_host();
  if (dice.OneIn(6)) cluster.late_workers = 1;
  for (uint32_t i = 0; i < workers + cluster.late_workers; ++i) {
    cluster.worker_hosts.push_back(add_host());
  }
  for (uint32_t i = 0; i < servers; ++i) {
    cluster.servers.push_back({add_host(), static_cast<uint32_t>(dice.From(1, 2))});
  }
}

// Adds moves of pieces. Most jobs have too few servers for moves, so half of these jobs get two.
void AddMoves(Dice& dice, FaultScript& script) {
  if (dice.OneIn(2)) MakeTwoServers(dice, script.cluster);
  for (uint64_t i = dice.From(1, 3); i > 0; --i) {
    script.events.push_back(dice.OneIn(3)
                                ? FaultOf(Fault::kMove, dice, script)
                                : After(SomeMoment(dice), static_cast<uint32_t>(dice.From(1, 12)),
                                        Fault::kMove, Target::kHere, dice, script));
  }
}

}  // namespace

FaultScript WriteFaults(uint64_t seed) {
  Dice dice(seed);
  FaultScript script;
  BuildCluster(dice, script.cluster);
  RollLanes(seed, script.cluster);
  uint64_t tensors = dice.From(1, 3);
  for (uint64_t i = 0; i < tensors; ++i) script.tensors.push_back(RandomTensor(dice));
  script.rounds = static_cast<uint32_t>(dice.From(2, 8));
  for (size_t i = 0; i < script.cluster.worker_hosts.size(); ++i) {
    script.pause.push_back(dice.OneIn(2) ? Duration::zero()
                                         : dice.Between(microseconds(10), milliseconds(20)));
    std::vector<uint32_t> order;
    for (uint32_t t = 0; t < tensors; ++t) order.push_back(t);
    std::shuffle(order.begin(), order.end(), dice.engine());
    script.order.push_back(std::move(order));
  }
  switch (dice.Below(4)) {
    case 0:
      for (uint64_t i = dice.From(1, 3); i > 0; --i) {
        script.events.push_back(
            FaultOf(static_cast<Fault>(dice.Below(kAnyJobFaultCount)), dice, script));
      }
      break;
    case 1: PlanPair(dice, seed / 2, script); break;
    default: PlanHistory(dice, script); break;
  }
  if (script.cluster.late_workers > 0) {
    script.sync_every = static_cast<uint32_t>(dice.From(1, 3));
    script.events.push_back(FaultOf(Fault::kJoin, dice, script));
  }
  AddRounds(dice, script);
  RollContributors(seed, script);
  Dice others(seed ^ 0xd15a6);  // so that the other seeds keep their schedules
  bool stays = script.cluster.late_workers == 0 && script.join_after.empty();
  if (stays && others.OneIn(12)) Disagreed(others, script);
  const bool rests = seed % 8 == 1 || seed % 8 == 3;  // the same
  if (rests) script.cluster.idle_operations = 1 + seed / 8 % 2;
  Dice moves(seed ^ 0x30e5);  // the same
  if (moves.OneIn(4)) AddMoves(moves, script);
  return script;
}

const char* NameOf(Fault fault) {
  static const char* const kNames[kFaultCount] = {
      "kill worker",   "kill server",   "kill coordinator",
      "freeze worker", "freeze server", "freeze coordinator",
      "cut data",      "cut control",   "cut one way",
      "partition",     "jitter",        "lag",
      "slow link",     "clock",         "abort",
      "accuse worker", "accuse server", "leave",
      "join",          "rival",         "move"};
  return kNames[static_cast<size_t>(fault)];
}

std::string Describe(const FaultScript& script) {
  static const char* const kMoments[kMomentCount] = {"",         "push",   "verdict", "resync",
                                                     "abort",    "answer", "stable",  "hand-over",
                                                     "proposal", "view",   "report"};
  std::string text = std::to_string(script.cluster.worker_hosts.size()) + " workers, " +
                     std::to_string(script.cluster.servers.size()) + " servers, " +
                     std::to_string(script.rounds) + " rounds, credit " +
                     std::to_string(script.cluster.credit_bytes) + DescribeLanes(script.cluster) +
                     DescribeContributors(script.cluster);
  if (script.cluster.strict) text += ", strict";
  if (script.cluster.late_workers > 0) {
    text += ", the last worker comes later, sync points every " +
            std::to_string(script.sync_every) + " rounds";
  }
  if (script.cluster.idle_operations > 0) {
    text += ", idle after " + std::to_string(script.cluster.idle_operations);
  }
  if (script.cluster.rounds_begin > 0) {
    text += ", rounds after " + std::to_string(script.cluster.rounds_begin);
  }
  for (const FaultTensor& tensor : script.tensors) {
    text += std::string("\n  ") + (tensor.atomic ? "atomic " : "") + operations::NameOf(tensor.op) +
            " of " + std::to_string(tensor.elements) + (tensor.in_place ? ", in place" : "") +
            (tensor.process_set > 0 ? ", process set " + std::to_string(tensor.process_set) : "");
  }
  for (size_t i = 0; i < script.cluster.process_sets.size(); ++i) {
    text += "\n  process set " + std::to_string(i + 1) + ":";
    for (uint32_t rank : script.cluster.process_sets[i]) text += " " + std::to_string(rank);
  }
  if (script.disagreement.has_value()) {
    text += "\n  worker " + std::to_string(script.disagreement->worker) + " means another tensor " +
            std::to_string(script.disagreement->tensor) + " in round " +
            std::to_string(script.disagreement->round);
  }
  if (!script.join_after.empty()) text += "\n  workers join after";
  for (uint32_t rounds : script.join_after) text += " " + std::to_string(rounds);
  for (const FaultEvent& event : script.events) {
    text += std::string("\n  ") + NameOf(event.fault) + " " + std::to_string(event.a) + " " +
            std::to_string(event.b) + " " + std::to_string(event.c) + " at " +
            std::to_string(ToSeconds(event.at)) + " s for " +
            std::to_string(ToSeconds(event.lasts)) + " s" + (event.told ? ", told" : "");
    if (event.process > 0) text += ", process " + std::to_string(event.process);
    if (event.moment == Moment::kBegin) continue;
    static const char* const kTargets[] = {"the named one", "who has part in it", "the next one"};
    text += std::string(" after ") + kMoments[static_cast<size_t>(event.moment)] + " " +
            std::to_string(event.nth) +
            (event.by == kNobody ? "" : " of worker " + std::to_string(event.by)) + ", of " +
            kTargets[static_cast<size_t>(event.target)];
  }
  return text;
}

}  // namespace byteps::sim
