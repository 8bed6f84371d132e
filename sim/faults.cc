#include "sim/faults.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>

#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/slot_set.h"

namespace byteps::sim {
namespace {

// By then everything has healed and everybody has finished, or hangs.
constexpr Duration kLimit = seconds(90);
constexpr Duration kRest = milliseconds(100);  // for acknowledgements and news of stability
constexpr uint64_t kTagUnit = uint64_t{1} << 20;

// One operation of one worker.
struct Played {
  uint32_t worker = 0;
  uint32_t tensor = 0;
  uint32_t round = 0;
  std::vector<uint64_t> input;
  std::vector<uint64_t> output;
  bool done = false;
  Status status;
  std::vector<uint64_t> result;
  std::vector<Slot> members;
  bool mixed = false;
};

class Play {
 public:
  explicit Play(const FaultOptions& options)
      : options_(options),
        script_(options.script.has_value() ? *options.script : WriteFaults(options.seed)) {
    script_.cluster.arithmetic = &arithmetic_;
    script_.cluster.mistakes = options.mistakes;
  }

  FaultResult Run();

 private:
  void Violation(const std::string& text) {
    if (!result_.violation.has_value()) result_.violation = text;
  }
  uint32_t workers() const { return cluster_->worker_count(); }
  bool Counts(uint32_t worker) const {
    return cluster_->alive(worker) && !cluster_->evicted(worker) && !ended_[worker];
  }
  void SubmitRound(uint32_t worker, uint32_t round);
  void OnComplete(uint32_t worker, protocol::OperationId id);
  void Inject(const FaultEvent& event);
  void Heal(const FaultEvent& event);
  void Later(Duration after, std::function<void()> work) {
    cluster_->network().At(cluster_->network().now() + after, nullptr, std::move(work));
  }
  bool AllDone() const;
  bool TooMuchLost() const;
  void CheckResult(const Played& played);
  void CheckReduction(const Played& played);
  void CheckGathered(const Played& played);
  void CheckAgreement();
  void CheckRest();
  std::string NameOf(const Played& played) const {
    return "worker " + std::to_string(played.worker) + ", tensor " + std::to_string(played.tensor) +
           ", round " + std::to_string(played.round);
  }
  static uint64_t Tag(uint32_t tensor, uint32_t round) { return round * 8 + tensor + 1; }

  FaultOptions options_;
  FaultScript script_;
  protocol::KernelArithmetic arithmetic_;
  std::unique_ptr<Cluster> cluster_;
  std::map<protocol::OperationId, Played> played_;
  std::vector<uint32_t> open_;   // by worker: operations of its present round
  std::vector<uint32_t> round_;  // by worker
  std::vector<bool> finished_;   // by worker: all rounds
  std::vector<bool> ended_;      // by worker: the job ended for it with an error
  bool aborts_ = false;
  FaultResult result_;
};

// Slot s brings 2^s and the tag of its round in every element, so a sum names its members and its
// round.
void Play::SubmitRound(uint32_t worker, uint32_t round) {
  if (!Counts(worker)) return;
  round_[worker] = round;
  open_[worker] = static_cast<uint32_t>(script_.tensors.size());
  for (uint32_t index : script_.order[worker]) {
    const FaultTensor& tensor = script_.tensors[index];
    protocol::OperationId id = played_.size() + 1;
    Played& played = played_[id];
    played.worker = worker;
    played.tensor = index;
    played.round = round;
    uint64_t value = (uint64_t{1} << worker) + Tag(index, round) * kTagUnit;
    if (tensor.op == wire::Op::kAverage)
      value = std::bit_cast<uint64_t>(static_cast<double>(value));
    played.input.assign(tensor.elements, value);
    bool gather = tensor.op == wire::Op::kAllgather;
    if (!tensor.in_place && !gather) played.output.assign(tensor.elements, 0);
    protocol::Operation operation;
    operation.id = id;
    operation.name = "t" + std::to_string(index);
    operation.spec.op = tensor.op;
    operation.spec.dtype = tensor.op == wire::Op::kAverage ? DataType::kFloat64 : DataType::kInt64;
    operation.spec.atomic = tensor.atomic;
    if (gather) {
      operation.rows = 1 + (worker + round) % 3;
      played.input.assign(tensor.elements * operation.rows, value);
    }
    operation.spec.shape = {static_cast<int64_t>(tensor.elements)};
    operation.input = reinterpret_cast<const std::byte*>(played.input.data());
    operation.output =
        reinterpret_cast<std::byte*>(tensor.in_place ? played.input.data() : played.output.data());
    cluster_->Submit(worker, cluster_->network().now(), std::move(operation));
  }
}

// The user reads the result and uses the memory for something else at once.
void Play::OnComplete(uint32_t worker, protocol::OperationId id) {
  Played& played = played_.at(id);
  const Completion& completion = cluster_->completions(worker).at(id);
  if (completion.completions != 1) return Violation(NameOf(played) + " ended twice");
  played.done = true;
  played.status = completion.outcome.status;
  const FaultTensor& tensor = script_.tensors[played.tensor];
  if (played.status.ok()) {
    ++result_.rounds;
    if (completion.outcome.receipt != nullptr) played.members = completion.outcome.receipt->List();
    played.mixed = completion.outcome.mixed;
    if (tensor.op == wire::Op::kAllgather) {
      played.result.resize(completion.outcome.gathered_bytes / 8);
      if (!played.result.empty()) {
        std::memcpy(played.result.data(), completion.outcome.gathered.get(),
                    played.result.size() * 8);
      }
    } else {
      played.result = tensor.in_place ? played.input : played.output;
    }
    CheckResult(played);
  }
  std::fill(played.input.begin(), played.input.end(), 0xdeadbeef);
  std::fill(played.output.begin(), played.output.end(), 0xdeadbeef);
  if (!played.status.ok()) {
    // An error of one operation leaves the job usable; an end of the job does not.
    StatusCode code = played.status.code();
    bool aborted = aborts_ && code == StatusCode::kDeadlineExceeded;
    bool lost_part = code == StatusCode::kPeerLost &&
                     (tensor.op == wire::Op::kBroadcast || tensor.op == wire::Op::kAllgather) &&
                     played.status.message().find("rank ") != std::string::npos;
    if (!aborted && !lost_part) ended_[worker] = true;
    if (ended_[worker] && !TooMuchLost() && !cluster_->evicted(worker) && !finished_[worker]) {
      Violation(NameOf(played) + " failed without a reason: " + played.status.ToString());
    }
  }
  if (--open_[worker] > 0) return;
  if (round_[worker] + 1 < script_.rounds) {
    uint32_t next = round_[worker] + 1;
    Later(script_.pause[worker], [this, worker, next] { SubmitRound(worker, next); });
  } else {
    finished_[worker] = true;
  }
}

// Rule 14, or a member that nobody can tell from a dead one.
bool Play::TooMuchLost() const {
  std::vector<bool> hit(script_.cluster.worker_hosts.size() + script_.cluster.servers.size());
  size_t servers = script_.cluster.servers.size();
  int jumps = 0;  // of the coordinator's clock: after the first one it waits before it judges
  for (const FaultEvent& event : script_.events) {
    bool jump = event.fault == Fault::kClock && event.a == hit.size();
    if (jump && ++jumps > 1) return true;
    size_t server = script_.cluster.worker_hosts.size() + event.a;
    switch (event.fault) {
      case Fault::kKillWorker:
      case Fault::kFreezeWorker:
      case Fault::kCutOneWay: hit[event.a] = true; break;
      case Fault::kCutControl:
        hit[event.b == 0 ? event.a : workers() + event.a % servers] = true;
        break;
      case Fault::kKillServer:
      case Fault::kFreezeServer: hit[server] = true; break;
      case Fault::kPartition:
        if (event.b == 0) hit[event.a] = true;
        if (event.b == 1) hit[server] = true;
        if (event.b == 2) return true;
        break;
      default: break;
    }
  }
  auto workers_end = hit.begin() + static_cast<ptrdiff_t>(script_.cluster.worker_hosts.size());
  bool all_workers = std::find(hit.begin(), workers_end, false) == workers_end;
  auto count = static_cast<size_t>(std::count(hit.begin(), hit.end(), true));
  return all_workers || 2 * count >= hit.size();
}

void Play::CheckResult(const Played& played) {
  switch (script_.tensors[played.tensor].op) {
    case wire::Op::kSum:
    case wire::Op::kAverage: return CheckReduction(played);
    case wire::Op::kAllgather: return CheckGathered(played);
    case wire::Op::kBroadcast:
      for (uint64_t value : played.result) {
        if (value != 1 + Tag(played.tensor, played.round) * kTagUnit) {
          return Violation(NameOf(played) + ": not what the root sent");
        }
      }
      return;
    default: return;
  }
}

void Play::CheckReduction(const Played& played) {
  const FaultTensor& tensor = script_.tensors[played.tensor];
  uint64_t mask = 0;
  for (Slot slot : played.members) mask |= uint64_t{1} << slot;
  auto count = static_cast<uint64_t>(played.members.size());
  uint64_t sum = mask + count * Tag(played.tensor, played.round) * kTagUnit;
  if (tensor.atomic && played.mixed) Violation(NameOf(played) + ": an atomic tensor is mixed");
  if (count == 0) return Violation(NameOf(played) + ": nobody is in the receipt");
  if (std::find(played.members.begin(), played.members.end(), played.worker) ==
      played.members.end()) {
    Violation(NameOf(played) + ": it is not in its own result");
  }
  for (uint64_t value : played.result) {
    if (tensor.op == wire::Op::kAverage) {
      double expected = static_cast<double>(sum) / static_cast<double>(count);
      if (!played.mixed && std::bit_cast<double>(value) != expected) {
        return Violation(NameOf(played) + ": not the average of its receipt");
      }
      continue;
    }
    uint64_t low = value % kTagUnit;
    bool round_right = value / kTagUnit ==
                       static_cast<uint64_t>(std::popcount(low)) * Tag(played.tensor, played.round);
    if (!round_right) return Violation(NameOf(played) + ": contributions of another round");
    bool right = played.mixed ? (low & mask) == mask : value == sum;
    if (!right) return Violation(NameOf(played) + ": the sum is not that of its receipt");
  }
}

// The rows of a subset of the workers, each complete, in order.
void Play::CheckGathered(const Played& played) {
  uint32_t elements = script_.tensors[played.tensor].elements;
  size_t at = 0;
  for (uint32_t worker = 0; worker < workers(); ++worker) {
    uint64_t value = (uint64_t{1} << worker) + Tag(played.tensor, played.round) * kTagUnit;
    if (at >= played.result.size() || played.result[at] != value) continue;
    size_t rows = size_t{1 + (worker + played.round) % 3} * elements;
    for (size_t i = 0; i < rows; ++i, ++at) {
      if (at >= played.result.size() || played.result[at] != value) {
        return Violation(NameOf(played) + ": rows are damaged");
      }
    }
  }
  if (at != played.result.size()) Violation(NameOf(played) + ": rows of nobody");
}

// All members have the same bits, the same receipt, or the same error.
void Play::CheckAgreement() {
  std::map<std::pair<uint32_t, uint32_t>, const Played*> first;
  for (const auto& [id, played] : played_) {
    if (!played.done || !Counts(played.worker)) continue;
    const Played*& other = first[{played.tensor, played.round}];
    if (other == nullptr) other = &played;
    bool same = other->status.code() == played.status.code() && other->result == played.result &&
                other->members == played.members;
    if (!same) {
      Violation(NameOf(played) + " differs from worker " + std::to_string(other->worker) + ": " +
                played.status.ToString() + " and " + other->status.ToString());
    }
  }
}

bool Play::AllDone() const {
  for (uint32_t worker = 0; worker < workers(); ++worker) {
    if (Counts(worker) && !finished_[worker]) return false;
  }
  return true;
}

void Play::Inject(const FaultEvent& event) {
  Cluster& cluster = *cluster_;
  switch (event.fault) {
    case Fault::kKillWorker: cluster.KillWorker(event.a); break;
    case Fault::kKillServer: cluster.KillServer(event.a); break;
    case Fault::kKillCoordinator: cluster.KillCoordinator(); break;
    case Fault::kFreezeWorker: cluster.FreezeWorker(event.a, true); break;
    case Fault::kFreezeServer: cluster.FreezeServer(event.a, true); break;
    case Fault::kFreezeCoordinator: cluster.FreezeCoordinator(true); break;
    case Fault::kCutData: cluster.CutDataConnection(event.a, event.b); break;
    case Fault::kCutControl:
      if (event.b == 0) cluster.CutWorkerControl(event.a);
      if (event.b != 0) {
        cluster.CutServerControl(event.a % static_cast<uint32_t>(script_.cluster.servers.size()));
      }
      break;
    case Fault::kCutOneWay: cluster.CutOneWay(event.a, event.b, event.c == 0, true); break;
    case Fault::kPartition:
      cluster.Partition({event.b == 0   ? script_.cluster.worker_hosts[event.a]
                         : event.b == 1 ? script_.cluster.servers[event.a].host
                                        : script_.cluster.coordinator_host});
      break;
    case Fault::kJitter: cluster.SetJitter(event.a, event.b, milliseconds(5)); break;
    case Fault::kClock: cluster.StepClock(event.a, event.lasts * (event.c == 0 ? 1 : 2)); break;
    case Fault::kAbort:
      aborts_ = true;
      cluster.AbortOpen(event.a);
      break;
  }
  if (event.told && (event.fault == Fault::kKillWorker || event.fault == Fault::kKillServer)) {
    Role role = event.fault == Fault::kKillWorker ? Role::kWorker : Role::kServer;
    uint64_t incarnation = cluster.IncarnationOf(role, event.a);
    Later(milliseconds(1), [this, role, index = event.a, incarnation] {
      cluster_->TellExit(role, index, incarnation);
    });
  }
  Later(event.lasts, [this, event] { Heal(event); });
}

void Play::Heal(const FaultEvent& event) {
  switch (event.fault) {
    case Fault::kKillServer: cluster_->RestartServer(event.a); break;
    case Fault::kKillCoordinator: cluster_->RestartCoordinator(); break;
    case Fault::kFreezeWorker: cluster_->FreezeWorker(event.a, false); break;
    case Fault::kFreezeServer: cluster_->FreezeServer(event.a, false); break;
    case Fault::kFreezeCoordinator: cluster_->FreezeCoordinator(false); break;
    case Fault::kCutOneWay: cluster_->CutOneWay(event.a, event.b, event.c == 0, false); break;
    case Fault::kPartition: cluster_->Partition({}); break;
    case Fault::kJitter: cluster_->SetJitter(event.a, event.b, Duration::zero()); break;
    default: break;
  }
}

void Play::CheckRest() {
  for (uint32_t worker = 0; worker < workers(); ++worker) {
    if (ended_[worker]) return;
  }
  if (!cluster_->coordinator_outcome().value_or(Status::Ok()).ok()) return;
  if (cluster_->verdicts_held() > 0) {
    Violation(std::to_string(cluster_->verdicts_held()) + " verdicts are kept at rest");
  }
  if (cluster_->copies_held() > 0) {
    Violation(std::to_string(cluster_->copies_held()) + " bytes of copies are kept at rest");
  }
}

FaultResult Play::Run() {
  if (options_.log) options_.log(Describe(script_));
  cluster_ = std::make_unique<Cluster>(script_.cluster);
  if (options_.log) {
    cluster_->set_log([this](const std::string& line) {
      double at = ToSeconds(cluster_->network().now().time_since_epoch());
      options_.log(std::to_string(at) + " " + line);
    });
  }
  open_.resize(workers());
  round_.resize(workers());
  finished_.resize(workers());
  ended_.resize(workers());
  cluster_->on_complete = [this](uint32_t worker, protocol::OperationId id) {
    OnComplete(worker, id);
  };
  cluster_->Start();
  for (uint32_t worker = 0; worker < workers(); ++worker) SubmitRound(worker, 0);
  // A job that has not begun waits for whoever is missing; faults are counted from its beginning.
  auto begun = [&] {
    auto views = cluster_->views();
    return std::all_of(views.begin(), views.end(), [](auto* view) { return view->epoch > 0; });
  };
  while (!begun() && cluster_->network().Step()) {
  }
  Time last = cluster_->network().now();
  for (const FaultEvent& event : script_.events) {
    Later(event.at, [this, event] { Inject(event); });
    last = std::max(last, cluster_->network().now() + event.at + event.lasts);
  }
  Time limit(kLimit);
  while (!AllDone() && cluster_->network().now() < limit && cluster_->network().Step()) {
  }
  result_.virtual_seconds = ToSeconds(cluster_->network().now().time_since_epoch());
  bool over = !cluster_->coordinator_outcome().value_or(Status::Ok()).ok();
  for (uint32_t worker = 0; worker < workers(); ++worker) {
    // Between two operations a user hears of the end with the next one, which is refused.
    if (over && TooMuchLost() && !finished_[worker]) ended_[worker] = true;
    if (Counts(worker) && !finished_[worker]) {
      Violation("hang: worker " + std::to_string(worker) + " is in round " +
                std::to_string(round_[worker]) + " of " + std::to_string(script_.rounds));
    }
    result_.ended_early = result_.ended_early || ended_[worker];
  }
  // What is still broken heals, then everything comes to rest.
  cluster_->RunUntilIdle(std::max(cluster_->network().now(), last + seconds(2)) + kRest);
  if (!result_.violation.has_value()) CheckRest();
  CheckAgreement();
  for (const std::string& text : cluster_->violations()) Violation(text);
  result_.events = cluster_->network().events();
  return std::move(result_);
}

}  // namespace

FaultResult RunFaults(const FaultOptions& options) { return Play(options).Run(); }

}  // namespace byteps::sim
