// The coordinator's side of declarations: the first rank that uses a name fixes what it is; a rank
// that differs makes the operation fail on every rank, with both sides named.
//
// Each name has a list of decisions, one per attempt. A rank asks for its next attempt and gets
// that decision, whether it comes first or last; so every rank sees the same sequence, and a name
// whose declaration failed can be used again at once.
#include "src/protocol/coordinator.h"

#include <algorithm>

#include "src/plan/partition.h"
#include "src/protocol/tensor_bytes.h"

namespace byteps::protocol {
namespace {

// What is known of the pieces before the first round. The result of an allgather is dealt from the
// same state, but the number of its pieces is not known here.
Result<plan::Partition> CutOf(const wire::TensorSpec& spec, uint32_t members, uint32_t bytes_max) {
  std::optional<uint64_t> bytes = TensorBytes(spec);
  if (!bytes.has_value()) {
    return Status(StatusCode::kInvalidArgument, "no tensor has this shape");
  }
  if (spec.op == wire::Op::kAllgather) bytes = 0;
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

void Coordinator::OnDeclare(ConnectionId from, const Member& member, const wire::Declare& declare) {
  Decisions& decisions = names_[declare.name];
  if (declare.attempt > decisions.size()) return;  // no correct worker skips an attempt
  if (declare.attempt == decisions.size()) decisions.push_back(Decide(member, declare));
  Decision& decision = decisions[declare.attempt];
  bool agrees = !decision.failed && decision.spec == declare.spec;
  if (!agrees && !decision.failed) return Mismatch(member, declare, decision);
  if (decision.failed) {
    driver_.Send(from, wire::DeclareFailed{declare.name, declare.attempt, decision.tensor,
                                           decision.code, decision.text, decision.round});
    return;
  }
  auto told = std::find(decision.told.begin(), decision.told.end(), from);
  if (told != decision.told.end()) return;  // no correct worker asks twice
  decision.told.push_back(from);
  driver_.Send(from,
               wire::Declared{declare.name, declare.attempt, decision.tensor, decision.placement});
  if (decision.told.size() == view_.workers.size()) decision.placement = {};
}

Coordinator::Decision Coordinator::Decide(const Member& member, const wire::Declare& declare) {
  Decision decision;
  decision.spec = declare.spec;
  decision.by = member.index;
  decision.tensor = next_tensor_++;
  decision.placement = dealer_->State();
  auto members = static_cast<uint32_t>(view_.workers.size());
  Result<plan::Partition> cut = CutOf(declare.spec, members, options_.piece_bytes_max);
  if (cut.ok()) {
    dealer_->DealTensor(cut.value());
  } else {
    decision.failed = true;
    decision.code = cut.status().code();
    decision.text = "tensor '" + declare.name + "': " + cut.status().message();
  }
  return decision;
}

void Coordinator::Mismatch(const Member& member, const wire::Declare& declare, Decision& decision) {
  decision.failed = true;
  decision.code = StatusCode::kMismatch;
  decision.round = declare.round;
  bool same_rank = decision.by == member.index;
  std::string earlier = same_rank ? "rank " + std::to_string(decision.by) + " had " +
                                        wire::Describe(decision.spec) + " before"
                                  : Side(decision.by, decision.spec);
  decision.text = "ranks disagree about tensor '" + declare.name + "': " + earlier + ", " +
                  Side(member.index, declare.spec) +
                  "; use the same name, shape, dtype and operation on every rank";
  wire::DeclareFailed failed{declare.name,  declare.attempt, decision.tensor,
                             decision.code, decision.text,   decision.round};
  // Ranks that have not asked yet will be answered when they do. Servers drop what they hold.
  for (const auto& [id, other] : members_) {
    bool told = false;
    for (ConnectionId known : decision.told) told = told || known == id;
    bool asks = other.join.role == Role::kWorker && other.index == member.index;
    if (told || asks || other.join.role == Role::kServer) driver_.Send(id, failed);
  }
}

}  // namespace byteps::protocol
