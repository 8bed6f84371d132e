#include "src/protocol/control/declarations.h"

#include <algorithm>
#include <utility>

#include "src/plan/partition.h"
#include "src/protocol/control/tensor_bytes.h"

namespace byteps::protocol {
namespace {

// More attempts at one name than any program makes.
constexpr uint32_t kAttemptsKnownMax = 4096;

// What is known of the pieces before the first round. The results of allgather and alltoall are
// dealt from the same state, but the number of their pieces is not known here; that of a
// reducescatter depends on its group and is about this one.
Result<plan::Partition> CutOf(const wire::TensorSpec& spec, uint32_t members, uint32_t bytes_max) {
  std::optional<uint64_t> bytes = TensorBytes(spec);
  if (!bytes.has_value()) {
    return Status(StatusCode::kInvalidArgument, "no tensor has this shape");
  }
  if (spec.op == wire::Op::kAllgather || spec.op == wire::Op::kAlltoall) bytes = 0;
  Result<plan::Partition> cut =
      plan::Partition::Cut(*bytes, plan::PieceBytes(*bytes, members, bytes_max));
  if (cut.ok() && cut->count() > kPiecesMax) {
    return Status(StatusCode::kExhausted, "it has " + std::to_string(cut->count()) +
                                              " pieces; raise BYTEPS_PARTITION_BYTES");
  }
  return cut;
}

std::string Side(uint32_t rank, const wire::TensorSpec& spec) {
  return "rank " + std::to_string(rank) + " has " + wire::Describe(spec);
}

}  // namespace

void Declarations::Begin(plan::PieceAssigner dealer, uint32_t workers, uint32_t piece_bytes_max) {
  dealer_ = std::move(dealer);
  workers_ = workers;
  piece_bytes_max_ = piece_bytes_max;
  names_.clear();
}

void Declarations::Number(TensorId first, uint32_t count) {
  next_tensor_ = first;
  end_tensor_ = first + count;
}

wire::DeclareFailed Declarations::FailureOf(const std::string& name, uint32_t attempt,
                                            const Decision& decision) {
  return {name, attempt, decision.tensor, decision.code, decision.text, decision.round};
}

Declarations::Answers Declarations::OnDeclare(const Rank& rank, const wire::Declare& declare) {
  Decisions& decisions = names_[declare.name];
  if (declare.attempt > decisions.size()) return {};  // no correct worker skips an attempt
  if (declare.attempt == decisions.size()) decisions.push_back(Decide(rank, declare));
  Decision& decision = decisions[declare.attempt];
  if (decision.state == Decision::State::kUnknown) decision = Decide(rank, declare);
  if (decision.state == Decision::State::kDeclared && decision.spec != declare.spec) {
    return Mismatch(rank, declare, decision);
  }
  if (decision.state == Decision::State::kFailed) {
    return {{rank.incarnation, FailureOf(declare.name, declare.attempt, decision)}};
  }
  decision.told.insert(rank.incarnation);
  return {{rank.incarnation,
           wire::Declared{declare.name, declare.attempt, decision.tensor, decision.placement}}};
}

Declarations::Decision Declarations::Decide(const Rank& rank, const wire::Declare& declare) {
  Decision decision;
  decision.spec = declare.spec;
  decision.by = rank.number;
  Result<plan::Partition> cut = CutOf(declare.spec, workers_, piece_bytes_max_);
  if (cut.ok() && next_tensor_ >= end_tensor_) {
    cut = Status(StatusCode::kExhausted, "the job has declared too many tensors; use names again");
  }
  if (!cut.ok()) {
    decision.state = Decision::State::kFailed;
    decision.code = cut.status().code();
    decision.text = "tensor '" + declare.name + "': " + cut.status().message();
    return decision;
  }
  decision.state = Decision::State::kDeclared;
  decision.tensor = next_tensor_++;
  decision.placement = dealer_->State();
  dealer_->DealTensor(cut.value());
  return decision;
}

Declarations::Answers Declarations::Mismatch(const Rank& rank, const wire::Declare& declare,
                                             Decision& decision) {
  decision.state = Decision::State::kFailed;
  decision.code = StatusCode::kMismatch;
  decision.round = declare.round;
  bool same_rank = decision.by == rank.number;
  std::string earlier = same_rank ? "rank " + std::to_string(decision.by) + " had " +
                                        wire::Describe(decision.spec) + " before"
                                  : Side(decision.by, decision.spec);
  decision.text = "ranks disagree about tensor '" + declare.name + "': " + earlier + ", " +
                  Side(rank.number, declare.spec) +
                  "; use the same name, shape, dtype and operation on every rank";
  wire::DeclareFailed failed = FailureOf(declare.name, declare.attempt, decision);
  // Ranks that have not asked yet will be answered when they do. Servers drop what they hold.
  decision.told.insert(rank.incarnation);
  Answers answers{{kServers, failed}};
  for (uint64_t told : decision.told) answers.push_back({told, failed});
  return answers;
}

Declarations::Decision& Declarations::At(const std::string& name, uint32_t attempt) {
  Decisions& decisions = names_[name];
  if (attempt >= decisions.size()) decisions.resize(attempt + 1);
  return decisions[attempt];
}

Declarations::Answers Declarations::OnKnown(const Rank& rank, const wire::Known& known) {
  Answers answers;
  for (const wire::KnownTensor& one : known.tensors) {
    if (one.declared.attempt >= kAttemptsKnownMax) continue;
    const std::string& name = one.declared.name;
    Decision& decision = At(name, one.declared.attempt);
    if (decision.state == Decision::State::kUnknown) {
      decision.state = Decision::State::kDeclared;
      decision.tensor = one.declared.tensor;
      decision.placement = one.declared.placement;
      decision.spec = one.spec;
      decision.by = rank.number;
    }
    decision.told.insert(rank.incarnation);
    if (decision.state != Decision::State::kFailed) continue;
    wire::DeclareFailed failed = FailureOf(name, one.declared.attempt, decision);
    answers.push_back({rank.incarnation, failed});
  }
  for (const wire::DeclareFailed& failed : known.failed) {
    if (failed.attempt >= kAttemptsKnownMax) continue;
    Decision& decision = At(failed.name, failed.attempt);
    if (decision.state == Decision::State::kFailed) continue;
    decision.state = Decision::State::kFailed;
    decision.tensor = failed.tensor;
    decision.code = failed.code;
    decision.text = failed.text;
    decision.round = failed.round;
    answers.push_back({kServers, failed});
    for (uint64_t told : decision.told) answers.push_back({told, failed});
  }
  return answers;
}

Status Declarations::GoOnDealing() {
  const Decision* last_dealt = nullptr;
  for (auto& [name, decisions] : names_) {
    for (Decision& decision : decisions) {
      bool last = &decision == &decisions.back();
      // Whoever could have told of this attempt is gone; others went on from it.
      if (decision.state == Decision::State::kUnknown && !last) {
        decision.state = Decision::State::kFailed;
        decision.text = "an earlier declaration of tensor '" + name + "' failed; use it again";
      }
      if (decision.placement.empty()) continue;
      if (last_dealt == nullptr || decision.tensor > last_dealt->tensor) last_dealt = &decision;
    }
  }
  if (last_dealt == nullptr) return Status::Ok();
  Status restored = dealer_->Restore(last_dealt->placement);
  if (!restored.ok()) return restored;
  Result<plan::Partition> cut = CutOf(last_dealt->spec, workers_, piece_bytes_max_);
  if (cut.ok()) dealer_->DealTensor(cut.value());
  return Status::Ok();
}

Declarations::Answers Declarations::FailedForServer(uint64_t server) const {
  Answers answers;
  for (const auto& [name, decisions] : names_) {
    for (uint32_t attempt = 0; attempt < decisions.size(); ++attempt) {
      const Decision& decision = decisions[attempt];
      if (decision.state != Decision::State::kFailed || decision.tensor == UINT32_MAX) continue;
      answers.push_back({server, FailureOf(name, attempt, decision)});
    }
  }
  return answers;
}

Declarations::Answers Declarations::FailedForWorker(uint64_t worker) const {
  Answers answers;
  for (const auto& [name, decisions] : names_) {
    for (uint32_t attempt = 0; attempt < decisions.size(); ++attempt) {
      const Decision& decision = decisions[attempt];
      if (decision.state != Decision::State::kFailed || !decision.told.contains(worker)) continue;
      answers.push_back({worker, FailureOf(name, attempt, decision)});
    }
  }
  return answers;
}

}  // namespace byteps::protocol
