// Checks results, and the state at rest.
#include <algorithm>
#include <bit>

#include "sim/play.h"

namespace byteps::sim {
namespace {

constexpr Duration kQuorumPatience = seconds(30);  // more than a coordinator has

}  // namespace

void Play::CheckResult(const Played& played) {
  Duration took = cluster_->network().now() - played.begun;
  bool watched = script_.others_wait_max > Duration::zero() && Agrees(played.worker);
  if (watched && took > script_.others_wait_max) {
    Violation(NameOf(played) + " took " + std::to_string(ToSeconds(took)) + " s");
  }
  switch (script_.tensors[played.tensor].op) {
    case wire::Op::kSum:
    case wire::Op::kReducescatter:
    case wire::Op::kAverage: return CheckReduction(played);
    case wire::Op::kJoin:
      if (played.result[0] >= processes().count())
        Violation(NameOf(played) + ": nobody joined last");
      return;
    case wire::Op::kAlltoall:
    case wire::Op::kAllgather: return CheckGathered(played);
    case wire::Op::kBroadcast: return CheckBroadcast(played);
    default: return;
  }
}

void Play::CheckReduction(const Played& played) {
  const FaultTensor& tensor = script_.tensors[played.tensor];
  uint64_t mask = 0;
  for (uint32_t process : played.members) mask |= uint64_t{1} << (process % 64);
  auto count = static_cast<uint64_t>(played.members.size());
  uint64_t sum = mask + count * Tag(played.tensor, played.round) * kTagUnit;
  if (tensor.atomic && played.mixed) Violation(NameOf(played) + ": an atomic tensor is mixed");
  if (count == 0) return Violation(NameOf(played) + ": nobody is in the receipt");
  uint32_t self = processes().CarrierOf(played.worker);
  if (std::find(played.members.begin(), played.members.end(), self) == played.members.end()) {
    Violation(NameOf(played) + ": it is not in its own result");
  }
  if (tensor.op == wire::Op::kAverage) return CheckAverage(played, sum);
  for (uint64_t value : played.result) {
    uint64_t low = value % kTagUnit;
    bool round_right = value / kTagUnit ==
                       static_cast<uint64_t>(std::popcount(low)) * Tag(played.tensor, played.round);
    if (!round_right) return Violation(NameOf(played) + ": contributions of another round");
    bool right = played.mixed ? (low & mask) == mask : value == sum;
    if (!right) return Violation(NameOf(played) + ": the sum is not that of its receipt");
  }
}

// A worker that came later may be the root, if the first one is gone.
void Play::CheckBroadcast(const Played& played) {
  for (uint64_t value : played.result) {
    bool right = std::has_single_bit(value % kTagUnit) &&
                 value / kTagUnit == Tag(played.tensor, played.round);
    if (!right) return Violation(NameOf(played) + ": not what the root sent");
  }
}

// Checks that the result has the rows of a subset of the workers, each complete, rank after rank. A
// worker that came later may have the rank of one that is gone.
void Play::CheckGathered(const Played& played) {
  const FaultTensor& tensor = script_.tensors[played.tensor];
  uint64_t seen = 0;
  for (size_t at = 0; at < played.result.size();) {
    uint64_t value = played.result[at];
    auto from = static_cast<uint32_t>(std::countr_zero(value));
    bool known = from < processes().count() && (seen >> from & 1) == 0 &&
                 value == (uint64_t{1} << from) + Tag(played.tensor, played.round) * kTagUnit;
    bool in_order = script_.cluster.late_workers > 0 || (seen >> from) == 0;
    if (!known || !in_order) return Violation(NameOf(played) + ": rows of nobody");
    seen |= uint64_t{1} << from;
    uint32_t worker = processes().WorkerOf(from);
    size_t rows = RowsFrom(worker, played.worker, played.round, tensor.op) * tensor.elements;
    for (size_t i = 0; i < rows; ++i, ++at) {
      if (at >= played.result.size() || played.result[at] != value) {
        return Violation(NameOf(played) + ": rows are damaged");
      }
    }
    if (rows == 0) return Violation(NameOf(played) + ": rows that were not sent");
  }
}

// Checks that all members have the same bits and the same receipt, or the same error.
void Play::CheckAgreement(const Played& played) {
  if (!Agrees(played.worker)) return;
  for (const Played* other : done_[{played.tensor, played.round}]) {
    if (!Agrees(other->worker)) continue;
    wire::Op op = script_.tensors[played.tensor].op;
    bool by_rank = op == wire::Op::kReducescatter || op == wire::Op::kAlltoall;
    bool same = other->status == played.status && (by_rank || other->result == played.result) &&
                other->members == played.members;
    if (same) continue;
    Violation(NameOf(played) + " differs from worker " + std::to_string(other->worker) + ": " +
              played.status.ToString() + " and " + other->status.ToString());
  }
}

void Play::CheckAllAgreements() {
  for (const auto& [id, played] : played_) {
    if (played.done) CheckAgreement(played);
  }
}

// Checks that the job gives up no member without a reason. If a worker and a server cannot talk to
// each other, the worker may have to go because of the server. Over a slow link the answer of a
// member that is asked whether it lives may come too late.
void Play::CheckLosses() {
  Status outcome = cluster_->coordinator_outcome().value_or(Status::Ok());
  if (!outcome.ok() && !TooMuchLost()) {
    Violation("the job ended without a reason: " + outcome.ToString());
  }
  auto servers = hit_.begin() + static_cast<ptrdiff_t>(cluster_->first_workers());
  bool server_hit = std::find(servers, hit_.end(), true) != hit_.end();
  if (coordinator_hit_ || coordinator_slow_ || server_hit) return;
  for (uint32_t worker = 0; worker < cluster_->first_workers(); ++worker) {
    bool hit = hit_[worker] || !cluster_->any_evicted(worker);
    if (!hit) Violation("worker " + std::to_string(worker) + " was left behind without a reason");
  }
}

bool Play::AnyPartLeaves() const {
  for (uint32_t worker = 0; worker < workers(); ++worker) {
    if (leaves_[worker] && processes().SizeOf(worker) > 1) return true;
  }
  return false;
}

// Checks that all processes of a contributor that is gone know it.
void Play::CheckSiblings() {
  if (result_.violation.has_value() || TooMuchLost()) return;
  std::optional<std::string> forgotten = cluster_->ForgottenSibling();
  if (forgotten.has_value()) Violation(*forgotten);
}

void Play::CheckRest() {
  for (uint32_t worker = 0; worker < workers(); ++worker) {
    if (ended_[worker]) return;
  }
  // Without a quorum nothing changes until the job ends for lack of one.
  bool kept = cluster_->verdicts_held() > 0 || cluster_->copies_held() > 0;
  if (kept && TooMuchLost()) cluster_->RunUntilIdle(cluster_->network().now() + kQuorumPatience);
  if (!cluster_->coordinator_outcome().value_or(Status::Ok()).ok()) return;
  if (cluster_->verdicts_held() > 0) {
    Violation(std::to_string(cluster_->verdicts_held()) + " verdicts are kept at rest");
  }
  if (cluster_->copies_held() > 0) {
    Violation(std::to_string(cluster_->copies_held()) + " bytes of copies are kept at rest");
  }
}

}  // namespace byteps::sim
