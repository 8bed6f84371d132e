#include "sim/scenario.h"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "sim/cluster.h"
#include "sim/expected.h"
#include "sim/script.h"
#include "src/operations/row.h"
#include "src/protocol/kernel_arithmetic.h"

namespace byteps::sim {
namespace {

constexpr Duration kLimit = seconds(600);
// Accidents count from this time, because users cannot know when a job starts.
constexpr Duration kStart = milliseconds(1);

// One operation of one worker: its tensor, its round and its bytes.
struct Played {
  uint32_t worker = 0;
  uint32_t tensor = 0;
  uint32_t round = 0;
  wire::TensorSpec spec;
  std::vector<std::byte> input;
  std::vector<std::byte> output;
};

// Returns the options of the cluster, with process sets of ranks in place of workers.
ClusterOptions ClusterOf(const Script& script) {
  ClusterOptions cluster = script.cluster;
  Processes processes(cluster.processes, cluster.worker_hosts.size());
  for (std::vector<uint32_t>& process_set : cluster.process_sets) {
    std::vector<uint32_t> ranks;
    for (uint32_t worker : process_set) {
      for (uint32_t i = 0; i < processes.SizeOf(worker); ++i) {
        ranks.push_back(processes.CarrierOf(worker) + i);
      }
    }
    process_set = std::move(ranks);
  }
  return cluster;
}

class Player {
 public:
  explicit Player(const ScenarioOptions& options)
      : options_(options),
        script_(options.script.has_value() ? *options.script
                                           : WriteScript(options.seed, options.faults)) {
    script_.cluster.arithmetic = &arithmetic_;
    script_.cluster.mistakes.shard = options.mistake;
  }

  ScenarioResult Run();

 private:
  void Violation(const std::string& text) {
    if (!result_.violation.has_value()) result_.violation = text;
  }
  void SubmitRound(uint32_t worker, uint32_t round);
  void PlanAccident();
  void Freeze(bool frozen);
  bool Calm() const;
  void Check();
  void CheckOne(protocol::OperationId id, const Played& played);
  void CheckBytes(const Played& played, const Completion& completion);
  void CheckError(const Played& played, const Status& status);
  bool MayFail(const Played& played) const;
  std::string Culprit(const Played& played) const;
  bool Disagrees(const Played& played) const;
  bool TakesPart(uint32_t worker, uint32_t tensor) const;
  // Replaces the root, which is a worker in a script, by its rank.
  wire::TensorSpec WithRootRank(wire::TensorSpec spec) const {
    if (operations::RowOf(spec.op).has_root) spec.root = cluster_->processes().CarrierOf(spec.root);
    return spec;
  }
  std::vector<std::byte> InputOf(uint32_t worker, uint32_t tensor, uint32_t round) const {
    return sim::InputOf(script_, options_.seed, worker, tensor, round);
  }
  std::string NameOf(const Played& played) const;

  ScenarioOptions options_;
  Script script_;
  protocol::KernelArithmetic arithmetic_;
  std::unique_ptr<Cluster> cluster_;
  std::map<protocol::OperationId, Played> played_;
  std::vector<uint32_t> open_;   // by worker: operations of its present round
  std::vector<uint32_t> round_;  // by worker
  ScenarioResult result_;
};

std::string Player::NameOf(const Played& played) const {
  return "worker " + std::to_string(played.worker) + ", " + script_.tensors[played.tensor].name +
         ", round " + std::to_string(played.round);
}

bool Player::Disagrees(const Played& played) const {
  return script_.accident == Accident::kMismatch && played.worker == script_.victim &&
         played.tensor == script_.accident_tensor && played.round == script_.accident_round;
}

bool Player::TakesPart(uint32_t worker, uint32_t tensor) const {
  std::vector<uint32_t> ranks = WorkersOf(script_, script_.tensors[tensor].spec.process_set);
  return std::find(ranks.begin(), ranks.end(), worker) != ranks.end();
}

void Player::SubmitRound(uint32_t worker, uint32_t round) {
  round_[worker] = round;
  open_[worker] = 0;
  for (uint32_t index : script_.order[worker]) open_[worker] += TakesPart(worker, index) ? 1 : 0;
  Time when = cluster_->network().now();
  for (uint32_t index : script_.order[worker]) {
    if (!TakesPart(worker, index)) continue;
    const ScriptTensor& tensor = script_.tensors[index];
    protocol::OperationId id = played_.size() + 1;
    Played& played = played_[id];
    played = {worker, index, round, SpecOf(tensor, round), InputOf(worker, index, round), {}};
    if (Disagrees(played)) {
      played.spec = script_.other_spec;
      played.input.assign(InputBytes(tensor, played.spec, worker, round), std::byte{1});
    }
    bool in_place = (options_.seed + index) % 2 == 0 && tensor.spec.op < wire::Op::kAllgather;
    if (!in_place) played.output.resize(played.input.size());
    protocol::Operation operation;
    operation.id = id;
    operation.name = tensor.name;
    operation.spec = WithRootRank(played.spec);
    operation.rows = RowsOf(tensor, worker, round);
    if (played.spec.op == wire::Op::kAlltoall) {
      operation.splits = SplitsOf(tensor, worker, round, tensor.receivers);
    }
    operation.input = played.input.data();
    operation.output = in_place ? played.input.data() : played.output.data();
    operation.priority = tensor.priority;
    when += script_.pause[worker];
    cluster_->Submit(worker, when, std::move(operation));
  }
}

void Player::Freeze(bool frozen) {
  if (script_.accident == Accident::kFreezeWorker)
    cluster_->faults().FreezeWorker(script_.victim, frozen, script_.victim_process);
  if (script_.accident == Accident::kFreezeServer)
    cluster_->faults().FreezeServer(script_.victim, frozen);
  if (script_.accident == Accident::kFreezeCoordinator)
    cluster_->faults().FreezeCoordinator(frozen);
}

// Returns whether the script loses no member, and no member leaves.
bool Player::Calm() const {
  switch (script_.accident) {
    case Accident::kNone:
    case Accident::kMismatch:
    case Accident::kFreezeWorker:
    case Accident::kFreezeServer:
    case Accident::kFreezeCoordinator: return true;
    default: return false;
  }
}

void Player::PlanAccident() {
  Cluster& cluster = *cluster_;
  uint32_t victim = script_.victim;
  uint32_t process = script_.victim_process;
  Time at = cluster.network().now() + kStart + script_.accident_at;
  auto plan = [&](std::function<void()> work) {
    cluster.network().At(at, nullptr, std::move(work));
  };
  switch (script_.accident) {
    case Accident::kKillWorker:
      return plan([&cluster, victim, process] { cluster.faults().KillWorker(victim, process); });
    case Accident::kKillServer:
      return plan([&cluster, victim] { cluster.faults().KillServer(victim); });
    case Accident::kKillCoordinator:
      return plan([&cluster] { cluster.faults().KillCoordinator(); });
    case Accident::kCutConnection:
      return plan([&cluster, victim, shard = script_.victim_shard] {
        cluster.faults().CutDataConnection(victim, shard);
      });
    case Accident::kCutWorkerControl:
      return plan([&cluster, victim, process] {
        cluster.faults().CutControl(victim, Duration::zero(), process);
      });
    case Accident::kCutServerControl:
      return plan([&cluster, victim] {
        cluster.faults().CutControl(cluster.worker_count() + victim, Duration::zero());
      });
    case Accident::kFreezeWorker:
    case Accident::kFreezeServer:
    case Accident::kFreezeCoordinator:
      plan([this] { Freeze(true); });
      return cluster.network().At(at + milliseconds(50), nullptr, [this] { Freeze(false); });
    case Accident::kLeaveEarly:  // played when its round comes
    case Accident::kMismatch:
    case Accident::kNone: return;
  }
}

ScenarioResult Player::Run() {
  if (options_.log) options_.log(Describe(script_));
  cluster_ = std::make_unique<Cluster>(ClusterOf(script_));
  if (options_.log) {
    cluster_->set_log([this](const std::string& line) {
      double at = ToSeconds(cluster_->network().now().time_since_epoch());
      options_.log(std::to_string(at) + " " + line);
    });
  }
  uint32_t workers = cluster_->worker_count();
  open_.resize(workers);
  round_.resize(workers);
  cluster_->on_complete = [this](uint32_t worker, protocol::OperationId) {
    if (--open_[worker] > 0) return;
    bool leaves = script_.accident == Accident::kLeaveEarly && worker == script_.victim &&
                  round_[worker] == script_.accident_round;
    if (leaves) return cluster_->Leave(worker, script_.victim_process);
    if (round_[worker] + 1 < script_.rounds) SubmitRound(worker, round_[worker] + 1);
  };
  cluster_->Start();
  for (uint32_t worker = 0; worker < workers; ++worker) SubmitRound(worker, 0);
  PlanAccident();
  bool idle = cluster_->RunUntilIdle(Time(kLimit));
  bool busy = !idle && cluster_->violations().empty();
  if (busy) Violation("still busy after " + std::to_string(ToSeconds(kLimit)) + " s");
  Check();
  result_.events = cluster_->network().events();
  result_.operations = played_.size();
  result_.virtual_seconds = ToSeconds(cluster_->last_completion().time_since_epoch());
  return std::move(result_);
}

void Player::Check() {
  for (const std::string& text : cluster_->violations()) Violation(text);
  for (const auto& [id, played] : played_) CheckOne(id, played);
  if (!Calm()) return;
  if (cluster_->repeated_answers() > 0) Violation("an answer came twice");
  uint64_t planned = 0;
  for (const ScriptTensor& tensor : script_.tensors) {
    planned += script_.rounds * WorkersOf(script_, tensor.spec.process_set).size();
  }
  if (played_.size() != planned) {
    Violation("hang: only " + std::to_string(played_.size()) + " of " + std::to_string(planned) +
              " operations were begun");
  }
  if (cluster_->rounds_open() > 0) Violation("rounds are open at rest");
  if (cluster_->verdicts_held() > 0) {
    Violation(std::to_string(cluster_->verdicts_held()) + " verdicts are kept at rest");
  }
}

void Player::CheckOne(protocol::OperationId id, const Played& played) {
  if (!cluster_->alive(played.worker)) return;
  const auto& completions = cluster_->completions(played.worker);
  const auto& refusals = cluster_->refusals(played.worker);
  auto completion = completions.find(id);
  if (completion == completions.end()) {
    if (refusals.contains(id)) return CheckError(played, refusals.at(id));
    // A job that ended before it began accepts nothing.
    if (MayFail(played)) return;
    return Violation("never accepted: " + NameOf(played));
  }
  int times = completion->second.completions;
  if (times != 1) {
    return Violation(NameOf(played) + " completed " + std::to_string(times) + " times");
  }
  const Status& status = completion->second.outcome.status;
  if (!status.ok()) return CheckError(played, status);
  CheckBytes(played, completion->second);
}

bool Player::MayFail(const Played& played) const {
  switch (script_.accident) {
    case Accident::kNone:
    case Accident::kFreezeWorker:
    case Accident::kFreezeServer:
    case Accident::kFreezeCoordinator: return false;
    case Accident::kMismatch:
      return played.tensor == script_.accident_tensor && played.round == script_.accident_round;
    case Accident::kLeaveEarly: return played.round > script_.accident_round;
    case Accident::kKillWorker:
    case Accident::kKillServer:
    case Accident::kKillCoordinator:
    case Accident::kCutWorkerControl:
    case Accident::kCutServerControl:
    case Accident::kCutConnection: return true;
  }
  return false;
}

// Returns the member that the error of `played` must name.
std::string Player::Culprit(const Played& played) const {
  switch (script_.accident) {
    case Accident::kKillServer:
    case Accident::kCutServerControl: return "server " + std::to_string(script_.victim);
    case Accident::kKillCoordinator: return "coordinator";
    case Accident::kCutConnection: return "";  // either end
    case Accident::kCutWorkerControl:
      if (played.worker == script_.victim) return "coordinator";
      break;
    default: break;
  }
  // The error names the process of the worker that is lost first, or has left first.
  if (cluster_->processes().SizeOf(script_.victim) > 1) return "worker ";
  return "worker " + std::to_string(cluster_->processes().CarrierOf(script_.victim));
}

// Checks that an error has a reason and the right kind, and names the members that it concerns.
void Player::CheckError(const Played& played, const Status& status) {
  if (!MayFail(played)) {
    return Violation(NameOf(played) + " failed without a reason: " + status.ToString());
  }
  bool mismatch = script_.accident == Accident::kMismatch;
  StatusCode expected = mismatch ? StatusCode::kMismatch : StatusCode::kPeerLost;
  if (status.code() != expected) {
    return Violation(NameOf(played) + " failed as: " + status.ToString());
  }
  std::vector<std::string> named;
  if (mismatch) {
    uint32_t rank = cluster_->processes().CarrierOf(script_.victim);
    named = {"rank " + std::to_string(rank) + " has",
             operations::Describe(WithRootRank(script_.other_spec)),
             operations::Describe(WithRootRank(
                 SpecOf(script_.tensors[script_.accident_tensor], script_.accident_round)))};
  } else {
    named = {Culprit(played)};
  }
  for (const std::string& name : named) {
    if (status.message().find(name) != std::string::npos) continue;
    return Violation(NameOf(played) + ": '" + name + "' is not named in: " + status.message());
  }
}

void Player::CheckBytes(const Played& played, const Completion& completion) {
  if (script_.accident == Accident::kMismatch && MayFail(played)) {
    return Violation(NameOf(played) + " succeeded although ranks disagreed");
  }
  std::vector<std::byte> expected =
      ExpectedOf(script_, options_.seed, played.worker, played.tensor, played.round);
  ConstByteSpan got = played.output.empty() ? ConstByteSpan(played.input) : played.output;
  if (played.spec.op == wire::Op::kReducescatter) got = got.first(expected.size());
  if (played.spec.op == wire::Op::kAllgather || played.spec.op == wire::Op::kAlltoall) {
    got = ConstByteSpan(completion.outcome.gathered.get(), completion.outcome.gathered_bytes);
  }
  bool equal =
      got.size() == expected.size() && std::equal(got.begin(), got.end(), expected.begin());
  if (!equal) Violation(NameOf(played) + ": wrong bytes");
}

}  // namespace

ScenarioResult RunScenario(const ScenarioOptions& options) { return Player(options).Run(); }

}  // namespace byteps::sim
