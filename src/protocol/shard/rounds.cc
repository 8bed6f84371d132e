#include "src/protocol/shard/rounds.h"

#include <string>
#include <utility>
#include <vector>

#include "src/plan/follows_ranks.h"

namespace byteps::protocol {
namespace {

VerdictTerms TermsOf(const Round& round) {
  return {.round = round.ref().round,
          .combine = round.combine(),
          .dtype = round.dtype(),
          .piece_bytes = round.piece_bytes(),
          .codec = round.codec(),
          .set = round.set().number()};
}

// Returns whether the verdict has the wanted bytes. An encoded verdict has only the whole.
bool IsThere(const Verdict& verdict, const Contribution& wanted) {
  if (verdict.empty()) return false;
  uint32_t size = verdict.terms().piece_bytes;
  if (verdict.terms().codec != 0) return wanted.want_offset == 0 && wanted.want_bytes == size;
  return uint64_t{wanted.want_offset} + wanted.want_bytes <= size;
}

// Returns what bits of the set's sums depend on. Ranks that have joined count like the others.
plan::SumBits SumBitsOf(const ProcessSet& set, const Members& members, const plan::SumRules& sums) {
  std::vector<plan::Summands> contributors;
  for (Slot slot = 0; slot < members.size(); ++slot) {
    plan::Summands& ranks = contributors.emplace_back();
    for (uint32_t rank : members.RanksOf(slot)) {
      if (set.IncludesRank(rank)) ranks.push_back(rank);
    }
  }
  return plan::BitsOf(contributors, sums);
}

}  // namespace

void Rounds::Tell(RoundMoment moment, const Round& round) const {
  if (options_.watch == nullptr) return;
  const std::vector<Slot>& arrived = round.order_of_arrival();
  Slot last = arrived.empty() ? kNoSlot : arrived.back();
  options_.watch->On({moment, round.ref(), last, round.piece_bytes()});
}

Status Rounds::TooMany() const {
  return {StatusCode::kExhausted,
          "more than " + std::to_string(options_.open_rounds_max) +
              " pieces wait for other ranks on shard " + std::to_string(facts_.view.self()) +
              "; begin fewer operations before the other ranks do, or raise "
              "BYTEPS_PARTITION_BYTES"};
}

Status Rounds::Open(Piece& piece, ProcessSet& set, const wire::DataHeader& header) {
  if (open_count_ >= options_.open_rounds_max + options_.failing_rounds_max) return TooMany();
  if (spare_.empty()) spare_.push_back(std::make_unique<Round>());
  piece.round = std::move(spare_.back());
  spare_.pop_back();
  piece.round->Begin(++begun_, header, set, facts_.members.size());
  set.BeginRound();
  ++open_count_;
  wants_.Add(header.ref);
  Tell(RoundMoment::kBegun, *piece.round);
  // The round fails on every rank, with a reason. If the shard only cut the sender off, the sender
  // would reconnect and push the same piece.
  if (open_count_ > options_.open_rounds_max) piece.round->Fail(TooMany());
  return Status::Ok();
}

void Rounds::Drop(Piece& piece) {
  if (piece.round == nullptr) return;
  ProcessSet& set = piece.round->set();
  piece.round->End();
  facts_.sets.EndRound(set);
  spare_.push_back(std::move(piece.round));
  --open_count_;
  wants_.ForgetEnded();
}

// The pushes themselves are right, so their senders keep their connections. A verdict that a member
// tells needs no codec here.
Status Rounds::CheckCodec(const Round& round) const {
  const Codec* codec = round.codec() == 0 ? nullptr : options_.codecs->Find(round.codec());
  if (round.codec() == 0 || (codec != nullptr && codec->Supports(round.dtype()))) {
    return Status::Ok();
  }
  std::string what = " has no codec " + std::to_string(round.codec());
  if (codec != nullptr) what += std::string(" for ") + NameOf(round.dtype());
  return {StatusCode::kInvalidArgument,
          "the server of shard " + std::to_string(facts_.view.self()) + what +
              ", which the workers use: start all servers with the codecs of the workers, or "
              "give the tensor another codec"};
}

// The first view of a job is checked before it comes into force, but later generations may have
// another layout.
Status Rounds::CheckSums(const Round& round) const {
  const plan::SumRules& rules = facts_.view.sum_rules();
  if (!rules.own_nodes) return Status::Ok();
  const auto follows = [&round](plan::SumBits bits) {
    return plan::FollowsRanks(bits, round.combine(), round.dtype(), round.codec() != 0);
  };
  if (!follows(plan::SumBits::kOnNothingElse)) {
    return {StatusCode::kInvalidArgument,
            "BYTEPS_SAME_BITS=1 allows only sums that depend on ranks alone, but codec " +
                std::to_string(round.codec()) +
                " rounds where a machine pushes; give the tensor no codec"};
  }
  if (facts_.view.sums().ok()) return Status::Ok();
  if (follows(SumBitsOf(round.set(), facts_.members, rules))) return Status::Ok();
  return {StatusCode::kInvalidArgument, facts_.view.sums().message()};
}

bool Rounds::MayEndInError(const Piece& piece) const {
  return options_.rules->ErrorMayFollow(piece.verdict) &&
         options_.rules->NobodyHoldsASum(facts_.attendance, piece.since);
}

void Rounds::DecideIfPossible(Piece& piece) {
  if (piece.round == nullptr) return;
  bool may_be_whole = !piece.round->LacksAPart();
  if (may_be_whole && options_.rules->IsComplete(facts_.attendance, piece)) return Decide(piece);
  std::optional<Status> error = facts_.attendance.ErrorOf(piece);
  if (error.has_value() && MayEndInError(piece)) DecideError(piece, *error);
}

void Rounds::Decide(Piece& piece) {
  const Round& round = *piece.round;
  // The member that began the round is gone, and no other member takes part.
  if (round.order_of_arrival().empty()) return Drop(piece);
  std::optional<Status> nobody_brings = facts_.attendance.NobodyBrings(piece);
  if (nobody_brings.has_value()) return DecideError(piece, *nobody_brings);
  Status known = CheckCodec(round);
  if (known.ok()) known = CheckSums(round);
  if (!known.ok()) return DecideError(piece, known);
  Tell(RoundMoment::kComplete, round);
  bool average = round.combine() == Combine::kAverage;
  uint32_t divisor = average ? facts_.attendance.DivisorOf(piece) : 1;
  Result<Combiner::Combined> combined = combiner_.Combine(round, divisor);
  if (!combined.ok()) return DecideError(piece, combined.status());
  Tell(RoundMoment::kSummed, round);
  // The receipt is nearly always the same object. Counting its references would cost time.
  Receipt part;
  bool whole = facts_.attendance.IsWholeSet(round);
  if (!whole) part = facts_.attendance.ReceiptOf(round);
  piece.verdict.SetBytes(TermsOf(round), whole ? round.set().all() : part, facts_.members,
                         std::move(combined.value().buffer), combined.value().bytes);
  End(piece);
}

void Rounds::DecideError(Piece& piece, const Status& why) {
  piece.verdict.AddError(TermsOf(*piece.round), facts_.attendance.ConcernedBy(piece),
                         facts_.members, why);
  End(piece);
}

// Answers every member that has pushed, and ends the round. REQUIRES: the verdict stands in the
// piece.
void Rounds::End(Piece& piece) {
  AnswerAll(piece);
  Tell(RoundMoment::kAnswered, *piece.round);
  Drop(piece);
  Settle(piece);
}

// A row of errors also answers members that have pushed an earlier round of the row.
void Rounds::EndAdopted(Piece& piece) {
  if (piece.verdict.Covers(piece.round->ref().round)) AnswerAll(piece);
  Drop(piece);
}

void Rounds::Forget(Piece& piece) {
  AnswerIdleNow(piece);
  if (!piece.verdict.stable()) BecomeStable(piece);
  Drop(piece);
}

// ---- Delivery of verdicts.

void Rounds::Answer(Piece& piece, const wire::PieceRef& ref, Slot slot,
                    const Contribution& pushed) {
  Verdict& verdict = piece.verdict;
  if (verdict.IsError()) return answers_.SendError(piece, ref, slot, pushed.priority);
  // Another member brought this verdict. No correct worker wants bytes that are not in it.
  if (pushed.want_bytes > 0 && !IsThere(verdict, pushed)) return;
  if (pushed.idle) return verdict.NeedIdle().Add(ref, slot, pushed.priority);
  answers_.Send(piece, ref, slot, {pushed.want_offset, pushed.want_bytes, pushed.priority});
}

// Answers every member that has pushed the round. REQUIRES: the verdict covers the round.
void Rounds::AnswerAll(Piece& piece) {
  const Round& round = *piece.round;
  const std::vector<Contribution>& contributions = round.contributions();
  for (Slot slot = 0; slot < contributions.size(); ++slot) {
    if (!contributions[slot].arrived || !facts_.members.IsServed(slot)) continue;
    Answer(piece, round.ref(), slot, contributions[slot]);
  }
  IdleMembers* idle = piece.verdict.idle();
  // A member that pushed the whole piece has the bytes, even if it does not know that the piece is
  // decided.
  for (Slot slot = 0; idle != nullptr && slot < contributions.size(); ++slot) {
    if (contributions[slot].HasAll()) idle->NoteHasAll(slot);
  }
}

// Answers the idle members, if every member that needs the verdict holds it, or wants nothing of
// it.
void Rounds::AnswerIdleIfDue(Piece& piece) {
  const Verdict& verdict = piece.verdict;
  if (verdict.idle() == nullptr) return;
  for (Slot slot = 0; slot < facts_.members.size(); ++slot) {
    bool settled = verdict.IsHeldBy(slot) || verdict.idle()->IsSettled(slot);
    if (verdict.Needs(slot, facts_.members) && !settled) return;
  }
  AnswerIdleNow(piece);
}

void Rounds::AnswerIdleNow(Piece& piece) {
  if (piece.verdict.idle() == nullptr) return;
  std::unique_ptr<IdleMembers> idle = piece.verdict.TakeIdle();
  for (Slot slot : idle->waiting()) {
    bool here = slot < facts_.members.size() && facts_.members.IsServed(slot);
    if (here) answers_.Send(piece, idle->ref(), slot, {0, 0, idle->priority()});
  }
}

void Rounds::BecomeStable(Piece& piece) {
  piece.verdict.BecomeStable();
  answers_.NoteStable();
}

void Rounds::NoteHolder(Piece& piece, Slot slot, uint64_t round) {
  if (round < piece.verdict.round()) {
    piece.verdict.AddErrorHolder(slot, round);
    return answers_.NoteStable();
  }
  if (piece.verdict.AddHolder(slot, facts_.members)) Settle(piece);
}

void Rounds::Recount(Piece& piece) {
  piece.verdict.Recount(facts_.members);
  Settle(piece);
}

void Rounds::Settle(Piece& piece) {
  if (piece.verdict.stable()) return;
  AnswerIdleIfDue(piece);  // includes members that wait for a verdict that becomes stable now
  if (piece.verdict.lacking() > 0) return;
  BecomeStable(piece);
  DecideIfPossible(piece);
}

void Rounds::NoteStable(Piece& piece, uint64_t round) {
  bool was_stable = piece.verdict.stable();
  piece.verdict.SetStable(round);
  if (was_stable) return;
  answers_.NoteStable();
  DecideIfPossible(piece);
}

}  // namespace byteps::protocol
