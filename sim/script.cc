#include "sim/script.h"

#include <algorithm>
#include <numeric>

#include "sim/contributor_plans.h"
#include "sim/dice.h"
#include "src/operations/row.h"

namespace byteps::sim {
namespace {

using Random = std::mt19937_64;

uint64_t Below(Random& random, uint64_t bound) { return random() % bound; }

uint64_t Between(Random& random, uint64_t low, uint64_t high) {
  return low + Below(random, high - low + 1);
}

ClusterOptions RandomCluster(uint64_t seed, Random& random) {
  ClusterOptions cluster;
  cluster.network.seed = seed * 2 + 1;
  cluster.network.latency = microseconds(Between(random, 5, 200));
  cluster.network.jitter_max = microseconds(Below(random, 3) * Between(random, 1, 300));
  auto hosts = static_cast<uint32_t>(Between(random, 1, 6));
  for (uint32_t i = 0; i < hosts; ++i) {
    cluster.host_links.push_back(1e6 * static_cast<double>(Between(random, 10, 1000)));
  }
  auto workers = static_cast<uint32_t>(Between(random, 1, Below(random, 8) == 0 ? 12 : 5));
  for (uint32_t i = 0; i < workers; ++i) {
    cluster.worker_hosts.push_back(static_cast<HostId>(Below(random, hosts)));
  }
  auto servers = static_cast<uint32_t>(Between(random, 1, 4));
  for (uint32_t i = 0; i < servers; ++i) {
    cluster.servers.push_back(
        {static_cast<HostId>(Below(random, hosts)), static_cast<uint32_t>(Between(random, 1, 4))});
  }
  static constexpr uint32_t kPieces[] = {64, 128, 512, 4096};
  cluster.piece_bytes_max = kPieces[Below(random, 4)];
  // A credit of one byte is a credit of one piece. Ranks wait for each other with small credits.
  static constexpr uint64_t kCredits[] = {0, 1, 1, 300, 5000};
  cluster.credit_bytes = kCredits[Below(random, 5)];
  return cluster;
}

wire::TensorSpec RandomSpec(Random& random, uint32_t workers) {
  wire::TensorSpec spec;
  spec.op = static_cast<wire::Op>(Below(random, static_cast<uint64_t>(wire::Op::kJoin)));
  spec.dtype = static_cast<DataType>(Below(random, kDataTypeCount));
  if (spec.op == wire::Op::kBroadcast) spec.root = static_cast<uint32_t>(Below(random, workers));
  if (spec.op == wire::Op::kBarrier) return spec;
  uint64_t dimensions = Below(random, 3);
  for (uint64_t i = 0; i < dimensions; ++i) {
    spec.shape.push_back(static_cast<int64_t>(Below(random, 8) == 0 ? 0 : Between(random, 1, 40)));
  }
  if (spec.op != wire::Op::kReducescatter) return spec;
  spec.combine = static_cast<wire::Op>(Below(random, wire::kReductionCount));
  if (spec.shape.empty()) spec.shape.push_back(static_cast<int64_t>(Below(random, 20)));
  return spec;
}

// Some tensors belong to a process set.
void RandomProcessSet(Script& script, ScriptTensor& tensor, Random& random) {
  if (!script.cluster.process_sets.empty() && Below(random, 2) == 0) {
    tensor.spec.process_set =
        1 + static_cast<uint32_t>(Below(random, script.cluster.process_sets.size()));
  }
  std::vector<uint32_t> ranks = WorkersOf(script, tensor.spec.process_set);
  tensor.receivers = ranks.size();
  if (tensor.spec.op == wire::Op::kBroadcast)
    tensor.spec.root = ranks[tensor.spec.root % ranks.size()];
}

std::vector<uint32_t> RandomRanks(Random& random, uint32_t workers) {
  std::vector<uint32_t> ranks(workers);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::shuffle(ranks.begin(), ranks.end(), random);
  ranks.resize(Between(random, 1, workers));
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// Returns another spec for the same name.
wire::TensorSpec Another(const wire::TensorSpec& spec, Random& random) {
  wire::TensorSpec other = spec;
  switch (Below(random, 3)) {
    case 0:
      other.dtype = spec.dtype == DataType::kInt32 ? DataType::kFloat32 : DataType::kInt32;
      break;
    case 1: other.shape.push_back(2); break;
    default: other.op = spec.op == wire::Op::kSum ? wire::Op::kMax : wire::Op::kSum; break;
  }
  if (spec.op == wire::Op::kBarrier) other.op = wire::Op::kSum;
  return other;
}

void RandomAccident(Script& script, Random& random, bool faults) {
  auto workers = static_cast<uint32_t>(script.cluster.worker_hosts.size());
  auto servers = static_cast<uint32_t>(script.cluster.servers.size());
  uint64_t choice = Below(random, 20);
  if (choice < 7 || workers < 2) return;
  script.accident = choice < 10 ? Accident::kMismatch : static_cast<Accident>(choice - 10 + 2);
  if (!faults && script.accident != Accident::kMismatch) script.accident = Accident::kNone;
  script.victim =
      static_cast<uint32_t>(Below(random, NamesServer(script.accident) ? servers : workers));
  uint32_t shards = 0;
  for (const ServerPlace& server : script.cluster.servers) shards += server.shards;
  script.victim_shard = static_cast<uint32_t>(Below(random, shards));
  script.accident_round = static_cast<uint32_t>(Below(random, script.rounds));
  script.accident_tensor = static_cast<uint32_t>(Below(random, script.tensors.size()));
  script.accident_at = microseconds(Below(random, 30000));
  if (script.accident != Accident::kMismatch) return;
  std::vector<uint32_t> ranks =
      WorkersOf(script, script.tensors[script.accident_tensor].spec.process_set);
  bool in_it = std::find(ranks.begin(), ranks.end(), script.victim) != ranks.end();
  if (!in_it || ranks.size() < 2) script.accident_tensor = 0;  // the tensor of all workers
  const wire::TensorSpec& spec = script.tensors[script.accident_tensor].spec;
  script.other_spec = Another(spec, random);
  const ScriptTensor& tensor = script.tensors[script.accident_tensor];
  // The other spec is that of round 0, which all ranks know.
  if (tensor.changes && script.accident_round % 2 == 1) script.other_spec = SpecOf(tensor, 0);
}

}  // namespace

bool NamesServer(Accident accident) {
  return accident == Accident::kKillServer || accident == Accident::kFreezeServer ||
         accident == Accident::kCutServerControl;
}

bool NamesWorker(Accident accident) {
  switch (accident) {
    case Accident::kMismatch:
    case Accident::kKillWorker:
    case Accident::kCutConnection:
    case Accident::kFreezeWorker:
    case Accident::kLeaveEarly:
    case Accident::kCutWorkerControl: return true;
    default: return false;
  }
}

wire::TensorSpec SpecOf(const ScriptTensor& tensor, uint32_t round) {
  wire::TensorSpec spec = tensor.spec;
  if (tensor.changes) spec.shape.resize(spec.shape.size() + round % 2, 1);
  return spec;
}

uint64_t RowsOf(const ScriptTensor& tensor, uint32_t worker, uint32_t round) {
  if (tensor.spec.op == wire::Op::kAlltoall) {
    std::vector<uint64_t> splits = SplitsOf(tensor, worker, round, tensor.receivers);
    return std::accumulate(splits.begin(), splits.end(), uint64_t{0});
  }
  return (tensor.rows[worker] + uint64_t{round} * (worker + 5)) % 7;
}

uint64_t InputBytes(const ScriptTensor& tensor, const wire::TensorSpec& spec, uint32_t worker,
                    uint32_t round) {
  if (spec.op == wire::Op::kBarrier) return 0;
  uint64_t bytes = SizeOf(spec.dtype);
  for (int64_t dimension : spec.shape) bytes *= static_cast<uint64_t>(dimension);
  bool own_rows = spec.op == wire::Op::kAllgather || spec.op == wire::Op::kAlltoall;
  return own_rows ? bytes * RowsOf(tensor, worker, round) : bytes;
}

std::vector<uint64_t> SplitsOf(const ScriptTensor& tensor, uint32_t worker, uint32_t round,
                               size_t receivers) {
  std::vector<uint64_t> splits;
  for (uint64_t to = 0; to < receivers; ++to) {
    splits.push_back((tensor.rows[worker] + 3 * to + round) % 4);
  }
  return splits;
}

std::vector<uint32_t> WorkersOf(const Script& script, uint32_t process_set) {
  if (process_set != 0) return script.cluster.process_sets[process_set - 1];
  std::vector<uint32_t> ranks(script.cluster.worker_hosts.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Script WriteScript(uint64_t seed, bool faults) {
  Random random(seed);
  Script script;
  script.cluster = RandomCluster(seed, random);
  RollLanes(seed, script.cluster);
  auto workers = static_cast<uint32_t>(script.cluster.worker_hosts.size());
  auto tensors = static_cast<uint32_t>(Between(random, 1, 6));
  for (uint64_t i = Below(random, 3); i > 0; --i) {
    script.cluster.process_sets.push_back(RandomRanks(random, workers));
  }
  for (uint32_t i = 0; i < tensors; ++i) {
    ScriptTensor tensor;
    tensor.name = "t" + std::to_string(i);
    tensor.spec = RandomSpec(random, workers);
    tensor.changes = i % 2 == 1 && tensor.spec.op != wire::Op::kBarrier;
    tensor.priority = static_cast<int32_t>(Below(random, 4));
    for (uint32_t w = 0; w < workers; ++w) tensor.rows.push_back(Below(random, 6));
    // Each worker has something to do in every round.
    if (i > 0) RandomProcessSet(script, tensor, random);
    tensor.receivers = WorkersOf(script, tensor.spec.process_set).size();
    script.tensors.push_back(std::move(tensor));
  }
  script.rounds = static_cast<uint32_t>(Between(random, 1, 4));
  for (uint32_t w = 0; w < workers; ++w) {
    std::vector<uint32_t> order(tensors);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    script.order.push_back(std::move(order));
    script.pause.push_back(microseconds(Below(random, 2) * Below(random, 500)));
  }
  RandomAccident(script, random, faults);
  RollContributors(seed, script);
  return script;
}

std::string Describe(const Script& script) {
  static const char* kAccidents[] = {"none",
                                     "mismatch",
                                     "kill worker",
                                     "kill server",
                                     "kill coordinator",
                                     "cut connection",
                                     "freeze worker",
                                     "leave early",
                                     "freeze server",
                                     "freeze coordinator",
                                     "cut control of worker",
                                     "cut control of server"};
  std::string text = std::to_string(script.cluster.worker_hosts.size()) + " workers, " +
                     std::to_string(script.cluster.servers.size()) + " servers, " +
                     std::to_string(script.tensors.size()) + " tensors, " +
                     std::to_string(script.rounds) + " rounds, pieces of " +
                     std::to_string(script.cluster.piece_bytes_max) + " bytes, credit " +
                     std::to_string(script.cluster.credit_bytes) + DescribeLanes(script.cluster) +
                     DescribeContributors(script.cluster) +
                     ", accident: " + kAccidents[static_cast<size_t>(script.accident)];
  if (script.accident != Accident::kNone) {
    text += " " + std::to_string(script.victim) + " in round " +
            std::to_string(script.accident_round) + " or at " +
            std::to_string(ToSeconds(script.accident_at)) + " s";
  }
  for (const ScriptTensor& tensor : script.tensors) {
    text += "\n  " + tensor.name + ": " + operations::Describe(tensor.spec);
  }
  return text;
}

}  // namespace byteps::sim
