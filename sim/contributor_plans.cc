#include "sim/contributor_plans.h"

#include <algorithm>

#include "sim/dice.h"
#include "sim/fault_parts.h"
#include "src/operations/row.h"

namespace byteps::sim {
namespace {

constexpr uint32_t kSizeMax = 3;
// This stream is one in which the seeds of docs/membership.md are jobs of single processes.
constexpr uint64_t kStream = uint64_t{79} << 32;

// Makes a job of so many members, on even links, in one generation, in which all take part in every
// round. So it is clear which members are a majority.
void MakePlain(FaultScript& script, uint32_t workers, uint32_t servers) {
  ClusterOptions& cluster = script.cluster;
  auto add_host = [&] {
    cluster.host_links.push_back(1e8);
    return static_cast<HostId>(cluster.host_links.size() - 1);
  };
  while (cluster.worker_hosts.size() < workers) cluster.worker_hosts.push_back(add_host());
  while (cluster.servers.size() < servers) cluster.servers.push_back({add_host(), 1});
  cluster.worker_hosts.resize(workers);
  cluster.servers.resize(servers);
  cluster.late_workers = 0;
  cluster.process_sets.clear();
  cluster.network.jitter_max = Duration::zero();
  std::fill(cluster.host_links.begin(), cluster.host_links.end(), 1e8);
  for (FaultTensor& tensor : script.tensors) tensor.process_set = 0;
  script.sync_every = 0;
  script.events.clear();
  script.pause.resize(workers);
  script.order.resize(workers, script.order.front());
  if (!script.join_after.empty()) script.join_after.resize(workers, script.rounds);
}

uint32_t SizeOf(const FaultScript& script, uint32_t worker) {
  const std::vector<uint32_t>& sizes = script.cluster.processes;
  return worker < sizes.size() ? sizes[worker] : 1;
}

// Returns some worker that has siblings, if there is one.
uint32_t SomeWorker(Dice& dice, const FaultScript& script) {
  uint32_t first = dice.Below32(Workers(script) - script.cluster.late_workers);
  for (uint32_t i = 0; i < Workers(script) - script.cluster.late_workers; ++i) {
    uint32_t worker = (first + i) % (Workers(script) - script.cluster.late_workers);
    if (SizeOf(script, worker) > 1) return worker;
  }
  return first;
}

// Siblings fail in every way, are started again, and perhaps something else goes wrong.
void SiblingFails(Dice& dice, FaultScript& script) {
  static constexpr Fault kFaults[] = {Fault::kKillWorker, Fault::kKillWorker, Fault::kFreezeWorker,
                                      Fault::kLag, Fault::kCutControl};
  uint32_t worker = SomeWorker(dice, script);
  for (uint64_t i = dice.From(1, 2); i > 0; --i) {
    FaultEvent event = FaultOf(kFaults[dice.Below(std::size(kFaults))], dice, script);
    event.a = worker;
    event.process = static_cast<uint32_t>(dice.From(1, kSizeMax - 1));
    if (dice.OneIn(2)) event.lasts = dice.Between(milliseconds(1), milliseconds(90));
    script.events.push_back(event);
  }
  if (dice.OneIn(2)) {
    auto other = static_cast<Fault>(dice.Below(kAnyJobFaultCount));
    script.events.push_back(After(SomeMoment(dice), static_cast<uint32_t>(dice.From(1, 8)), other,
                                  Target::kNamed, dice, script));
  }
}

// The processes of a worker leave one after the other, and in between a fault hits one of them.
void PartLeaves(Dice& dice, FaultScript& script) {
  static constexpr Fault kFaults[] = {Fault::kKillWorker, Fault::kFreezeWorker, Fault::kCutControl,
                                      Fault::kLag, Fault::kKillCoordinator};
  script.cluster.process_gap = dice.Between(milliseconds(1), milliseconds(60));
  uint32_t worker = SomeWorker(dice, script);
  FaultEvent leave = FaultOf(Fault::kLeave, dice, script);
  leave.a = worker;
  leave.process = dice.Below32(kSizeMax);
  leave.at = dice.Between(milliseconds(0), milliseconds(25));
  script.events.push_back(leave);
  if (dice.OneIn(3)) return;
  FaultEvent event = FaultOf(kFaults[dice.Below(std::size(kFaults))], dice, script);
  event.a = worker;
  event.process = dice.Below32(kSizeMax);
  event.at = leave.at + dice.Between(milliseconds(0), milliseconds(80));
  script.events.push_back(event);
}

// A server shall go, and only siblings and servers promise the view without it. Then the members
// that know the view are away when another coordinator asks the carriers, which do not know it.
void SiblingsPromise(Dice& dice, FaultScript& script) {
  MakePlain(script, 3, 2);
  for (uint32_t worker = 0; worker < 3; ++worker) {
    script.cluster.processes.push_back(static_cast<uint32_t>(dice.From(2, kSizeMax)));
  }
  Duration latency = script.cluster.network.latency;
  Duration begin = dice.Between(milliseconds(1), milliseconds(20));
  FaultEvent start;
  Add(script, start, Fault::kAccuseServer, 1, begin, dice);
  Duration away = dice.Between(milliseconds(20), milliseconds(80));
  for (uint32_t worker = 0; worker < 3; ++worker) {
    Add(script, start, Fault::kCutControl, worker, begin + latency * 3 / 2, dice).lasts = away;
  }
  FaultEvent applied = Trigger(Moment::kApplied, 1, kNobody);
  Add(script, applied, Fault::kKillCoordinator, 0, dice.Between(Duration::zero(), milliseconds(1)),
      dice)
      .lasts = dice.Between(milliseconds(5), milliseconds(60));
  Duration gone = dice.Between(milliseconds(300), milliseconds(800));
  Add(script, applied, Fault::kFreezeServer, 0, Duration::zero(), dice).lasts = gone;
  for (uint32_t worker = 0; worker < 3; ++worker) {
    for (uint32_t process = 1; process < SizeOf(script, worker); ++process) {
      FaultEvent& cut = Add(script, applied, Fault::kCutControl, worker, milliseconds(1), dice);
      cut.lasts = gone;
      cut.process = process;
    }
  }
}

// All processes of one machine are silent. They are most of the job's processes, and one of its
// three members.
void MachineIsSilent(Dice& dice, FaultScript& script) {
  MakePlain(script, 2, 1);
  uint32_t worker = dice.Below32(2);
  script.cluster.processes.assign(2, 1);
  script.cluster.processes[worker] = kSizeMax;
  script.others_wait_max = seconds(4);
  Duration at = dice.Between(milliseconds(0), milliseconds(10));
  for (uint32_t process = 0; process < kSizeMax; ++process) {
    FaultEvent& event = Add(script, FaultEvent{}, Fault::kFreezeWorker, worker, at, dice);
    event.lasts = seconds(15);
    event.process = process;
  }
}

void RollSizes(Dice& dice, ClusterOptions& cluster) {
  auto first = static_cast<uint32_t>(cluster.worker_hosts.size()) - cluster.late_workers;
  for (uint32_t worker = 0; worker < cluster.worker_hosts.size(); ++worker) {
    auto size = static_cast<uint32_t>(dice.From(1, kSizeMax));
    // A scheduler that is started again must not take late processes for a whole new job: a job
    // that runs has fewer newcomers than places (docs/decisions/0017).
    if (worker >= first) size = std::min(size, std::max(1U, first - 1));
    cluster.processes.push_back(size);
  }
  if (dice.OneIn(3)) return;
  cluster.process_gap = dice.Between(microseconds(10), milliseconds(dice.OneIn(6) ? 100 : 10));
}

// Turns process sets of workers into sets of processes: of each worker the carrier, and some of the
// others.
void NumberRanks(Dice& dice, ClusterOptions& cluster) {
  Processes processes(cluster.processes, cluster.worker_hosts.size());
  for (std::vector<uint32_t>& process_set : cluster.process_sets) {
    std::vector<uint32_t> ranks;
    for (uint32_t worker : process_set) {
      ranks.push_back(processes.CarrierOf(worker));
      for (uint32_t i = 1; i < processes.SizeOf(worker); ++i) {
        if (dice.OneIn(2)) ranks.push_back(processes.CarrierOf(worker) + i);
      }
    }
    process_set = std::move(ranks);
  }
}

}  // namespace

void RollContributors(uint64_t seed, FaultScript& script) {
  Dice dice(seed ^ kStream);
  if (!dice.OneIn(4)) return;
  // A worker tells only the sizes of its own rank. The table would have any numbers in the places
  // of the other processes of its contributor, so such operations become sums.
  for (FaultTensor& tensor : script.tensors) {
    if (operations::RowOf(tensor.op).sizes_first) tensor.op = wire::Op::kSum;
  }
  static constexpr void (*kPlain[])(Dice&, FaultScript&) = {SiblingsPromise, MachineIsSilent};
  static constexpr void (*kOthers[])(Dice&, FaultScript&) = {SiblingFails, PartLeaves};
  if (!script.cluster.strict && dice.OneIn(4)) return kPlain[dice.Below(2)](dice, script);
  RollSizes(dice, script.cluster);
  // The coordinator's link is fast, because views of so many members would hold up answers on a
  // slow link for longer than the grace.
  script.cluster.host_links[script.cluster.coordinator_host] = 1e8;
  NumberRanks(dice, script.cluster);
  for (FaultEvent& event : script.events) event.process = dice.Below32(6);
  if (script.cluster.strict || dice.OneIn(3)) return;
  bool comes = script.cluster.late_workers > 0;
  FaultEvent join = comes ? script.events.back() : FaultEvent{};
  script.events.clear();
  kOthers[dice.Below(2)](dice, script);
  if (comes) script.events.push_back(join);
}

// Skips scripts with operations that tell sizes, for the same reason.
void RollContributors(uint64_t seed, Script& script) {
  Dice dice(seed ^ kStream);
  bool own_sizes = std::any_of(
      script.tensors.begin(), script.tensors.end(),
      [](const ScriptTensor& one) { return operations::RowOf(one.spec.op).sizes_first; });
  if (own_sizes || !dice.OneIn(2)) return;
  RollSizes(dice, script.cluster);
  if (!NamesWorker(script.accident)) return;
  script.victim_process = dice.Below32(script.cluster.processes[script.victim]);
}

std::string DescribeContributors(const ClusterOptions& cluster) {
  if (cluster.processes.empty()) return "";
  std::string text = ", processes";
  for (uint32_t size : cluster.processes) text += " " + std::to_string(size);
  if (cluster.process_gap == Duration::zero()) return text;
  return text + " " + std::to_string(ToSeconds(cluster.process_gap)) + " s apart";
}

}  // namespace byteps::sim
