#include "src/protocol/shard/rounds.h"

#include <string>
#include <utility>

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
              " pieces wait for other ranks on shard " + std::to_string(parts_.view.self()) +
              "; begin fewer operations before the other ranks do, or raise "
              "BYTEPS_PARTITION_BYTES"};
}

Status Rounds::Open(Piece& piece, ProcessSet& set, const wire::DataHeader& header, Time now) {
  if (open_count_ >= options_.open_rounds_max + options_.failing_rounds_max) return TooMany();
  if (spare_.empty()) spare_.push_back(std::make_unique<Round>());
  piece.round = std::move(spare_.back());
  spare_.pop_back();
  piece.round->Begin(++begun_, header, set, parts_.members.size());
  set.BeginRound();
  ++open_count_;
  parts_.wants.Add(header.ref, now);
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
  parts_.sets.EndRound(set);
  spare_.push_back(std::move(piece.round));
  --open_count_;
  parts_.wants.ForgetEnded();
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
          "the server of shard " + std::to_string(parts_.view.self()) + what +
              ", which the workers use: start all servers with the codecs of the workers, or "
              "give the tensor another codec"};
}

bool Rounds::MayEndInError(const Piece& piece) const {
  return options_.rules->ErrorMayFollow(piece.verdict) &&
         options_.rules->NobodyHoldsASum(parts_.attendance, piece.since);
}

void Rounds::DecideIfPossible(Piece& piece) {
  if (piece.round == nullptr) return;
  bool may_be_whole = !piece.round->LacksAPart();
  if (may_be_whole && options_.rules->IsComplete(parts_.attendance, piece)) return Decide(piece);
  std::optional<Status> error = parts_.attendance.ErrorOf(piece);
  if (error.has_value() && MayEndInError(piece)) DecideError(piece, *error);
}

void Rounds::Decide(Piece& piece) {
  const Round& round = *piece.round;
  // The member that began the round is gone, and no other member takes part.
  if (round.order_of_arrival().empty()) return Drop(piece);
  std::optional<Status> nobody_brings = parts_.attendance.NobodyBrings(piece);
  if (nobody_brings.has_value()) return DecideError(piece, *nobody_brings);
  Status known = CheckCodec(round);
  if (!known.ok()) return DecideError(piece, known);
  Tell(RoundMoment::kComplete, round);
  bool average = round.combine() == Combine::kAverage;
  uint32_t divisor = average ? parts_.attendance.DivisorOf(piece) : 1;
  Result<Combiner::Combined> combined = parts_.combiner.Combine(round, divisor);
  if (!combined.ok()) return DecideError(piece, combined.status());
  Tell(RoundMoment::kSummed, round);
  // The receipt is nearly always the same object. Counting its references would cost time.
  Receipt part;
  bool whole = parts_.attendance.IsWholeSet(round);
  if (!whole) part = parts_.attendance.ReceiptOf(round);
  piece.verdict.SetBytes(TermsOf(round), whole ? round.set().all() : part, parts_.members,
                         std::move(combined.value().buffer), combined.value().bytes);
  AnswerAll(piece);
}

void Rounds::DecideError(Piece& piece, const Status& why) {
  piece.verdict.AddError(TermsOf(*piece.round), parts_.attendance.ConcernedBy(piece),
                         parts_.members, why);
  AnswerAll(piece);
}

// Answers every member that has pushed. REQUIRES: the verdict stands in the piece.
void Rounds::AnswerAll(Piece& piece) {
  parts_.delivery.AnswerAll(piece, *piece.round);
  Tell(RoundMoment::kAnswered, *piece.round);
  Drop(piece);
  parts_.delivery.Settle(piece);
}

void Rounds::NoteHolder(Piece& piece, Slot slot, uint64_t round) {
  if (parts_.delivery.NoteHolder(piece, slot, round)) DecideIfPossible(piece);
}

void Rounds::Recount(Piece& piece) {
  if (parts_.delivery.Recount(piece)) DecideIfPossible(piece);
}

void Rounds::Settle(Piece& piece) {
  if (parts_.delivery.Settle(piece)) DecideIfPossible(piece);
}

void Rounds::NoteStable(Piece& piece, uint64_t round) {
  if (parts_.delivery.NoteStable(piece, round)) DecideIfPossible(piece);
}

}  // namespace byteps::protocol
