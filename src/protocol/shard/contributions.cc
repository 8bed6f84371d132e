#include "src/protocol/shard/contributions.h"

#include <new>
#include <string>
#include <utility>

namespace byteps::protocol {
namespace {

Status WrongPush(const std::string& what) {
  return {StatusCode::kProtocol, "push refused: " + what};
}

}  // namespace

Status Contributions::CheckHeader(const wire::DataHeader& header) const {
  if (header.generation != parts_.view.generation()) {
    return WrongPush("it belongs to another generation");
  }
  if (header.codec == 0) return Status::Ok();
  if (header.combine == Combine::kOverlay) return WrongPush("what is overlaid has no codec");
  bool nothing = header.want_bytes == 0;
  bool all = header.want_offset == 0 && header.want_bytes == header.piece_bytes;
  return nothing || all ? Status::Ok() : WrongPush("it wants a part of what is encoded");
}

Status Contributions::CheckPush(const wire::DataHeader& header, size_t payload_bytes) const {
  Status checked = CheckHeader(header);
  if (checked.ok() && header.status != StatusCode::kOk) return WrongPush("it is no push");
  if (!checked.ok() || header.combine == Combine::kOverlay) return checked;
  bool whole = payload_bytes == header.piece_bytes;
  if (header.codec != 0) whole = payload_bytes == header.encoded_bytes;
  if (header.offset != 0 || !whole || header.piece_bytes % SizeOf(header.dtype) != 0) {
    return WrongPush("only a part of the piece was pushed");
  }
  return Status::Ok();
}

// The shard checks again, where it is cheap, what declarations guarantee: all pushes must mean the
// same piece. We cannot know which of two members that differ is right, so the error names both.
Status Contributions::CheckRound(const Round& round, const ProcessSet& set, Slot from,
                                 const wire::DataHeader& header) const {
  auto wrong = [&](const std::string& what, const std::string& other) {
    return WrongPush(parts_.members.NameOf(from) + " pushed " + what + " where " +
                     parts_.attendance.PusherOf(round) + " pushed " + other);
  };
  if (header.ref.round != round.ref().round) {
    return wrong("round " + std::to_string(header.ref.round),
                 "round " + std::to_string(round.ref().round) + ": tensor " +
                     std::to_string(header.ref.tensor) + ", piece " +
                     std::to_string(header.ref.piece));
  }
  if (&round.set() != &set) {
    return wrong("for process set " + std::to_string(set.number()),
                 "for process set " + std::to_string(round.set().number()));
  }
  if (round.combine() != header.combine || round.dtype() != header.dtype ||
      round.piece_bytes() != header.piece_bytes) {
    return wrong(std::to_string(header.piece_bytes) + " bytes of " + NameOf(header.dtype),
                 std::to_string(round.piece_bytes()) + " bytes of " + NameOf(round.dtype()));
  }
  if (round.codec() != header.codec) {
    return wrong("with codec " + std::to_string(header.codec),
                 "with codec " + std::to_string(round.codec()));
  }
  return Status::Ok();
}

// The kept verdict answers a repeat, so the repeat must be of the same piece. A push of an earlier
// round needs no answer: its sender's request for an error has overtaken it, and so has the
// sender's join, or its more urgent push of the decided round.
Status Contributions::CheckRepeat(const Piece& piece, const wire::DataHeader& header) const {
  const Verdict& verdict = piece.verdict;
  bool over = header.ref.round < verdict.round();
  if (over || verdict.IsError() || verdict.stable()) return Status::Ok();
  const VerdictTerms& terms = verdict.terms();
  if (header.combine != terms.combine || header.dtype != terms.dtype ||
      header.piece_bytes != terms.piece_bytes || header.codec != terms.codec) {
    return WrongPush("a repeat differs from what was decided");
  }
  if (verdict.empty() && header.want_bytes > 0) {
    return WrongPush("it wants what all who wanted it are said to have");
  }
  return Status::Ok();
}

// Returns whether the push would begin a round of a use in which the ranks disagree, or of a
// forgotten tensor.
bool Contributions::IsInVain(const wire::PieceRef& ref) const {
  if (parts_.pieces.IsForgotten(ref.tensor)) return true;
  if (!parts_.pieces.IsVoid(ref)) return false;
  const Piece* piece = parts_.pieces.Find(ref);
  return piece == nullptr || ref.round > piece->verdict.round();
}

Status Contributions::Place(Slot from, Incoming& incoming) {
  const wire::DataHeader& header = incoming.header;
  Status checked = CheckPush(header, incoming.payload_bytes);
  if (!checked.ok()) return checked;
  parts_.members.NoteEpoch(from, header.epoch);
  std::optional<uint64_t> since = parts_.view.Counts(header.ref, header.home, header.epoch);
  if (!since.has_value() || IsInVain(header.ref)) return checked;
  ProcessSet* set = parts_.sets.For(from, header.process_set);
  if (set == nullptr) return parts_.sets.NotTold(from, header.process_set);
  Piece& piece = parts_.pieces.At(header.ref, header.home, *since);
  if (header.ref.round > piece.verdict.round()) {
    return PlaceInRound(piece, *set, from, incoming);
  }
  incoming.fate = Fate::kRepeat;
  return CheckRepeat(piece, header);
}

// A member that was left behind may have gone on alone, with answers that no member has. It may
// have gone on to another round, or with other rows of an allgather.
Status Contributions::NeedRound(Piece& piece, ProcessSet& set, Slot from,
                                const wire::DataHeader& header) {
  bool overtaken = piece.round != nullptr && !parts_.attendance.AnyMemberIn(*piece.round) &&
                   !CheckRound(*piece.round, set, from, header).ok();
  if (overtaken) parts_.rounds.Drop(piece);
  if (piece.round == nullptr) return parts_.rounds.Open(piece, set, header);
  return CheckRound(*piece.round, set, from, header);
}

Status Contributions::PlaceInRound(Piece& piece, ProcessSet& set, Slot from, Incoming& incoming) {
  const wire::DataHeader& header = incoming.header;
  Status checked = NeedRound(piece, set, from, header);
  if (!checked.ok()) return checked;
  Round& round = *piece.round;
  incoming.fate = Fate::kRepeat;
  if (round.HasArrived(from)) return checked;
  incoming.round_serial = round.serial();
  try {
    incoming.place =
        round.PlaceOf(from, header, incoming.payload_bytes, parts_.pool, incoming.keep);
    incoming.fate = Fate::kContribution;
  } catch (const std::bad_alloc&) {
    round.DropBegun(from);
    round.Fail(NoMemory(from, incoming.payload_bytes));
    incoming.fate = Fate::kNoRoom;
  }
  return checked;
}

Status Contributions::NoMemory(Slot from, size_t bytes) const {
  return {StatusCode::kExhausted,
          "shard " + std::to_string(parts_.view.self()) + " has no memory for " +
              std::to_string(bytes) + " bytes that " + parts_.members.NameOf(from) +
              " pushed: give its server more (a limit of the container, or ulimit -v), start more "
              "servers, or lower BYTEPS_CREDIT_BYTES"};
}

void Contributions::Take(Slot from, const Incoming& incoming) {
  bool contributes = incoming.fate == Fate::kContribution || incoming.fate == Fate::kNoRoom;
  if (contributes) TakeContribution(from, incoming);
  if (incoming.fate == Fate::kRepeat) {
    AnswerAgain(from, incoming.header, incoming.payload_bytes);
  }
}

void Contributions::TakeContribution(Slot from, const Incoming& incoming) {
  Piece* piece = parts_.pieces.Find(incoming.header.ref);
  if (piece == nullptr) return;  // retired, or moved away while the payload came in
  if (incoming.header.ref.round <= piece->verdict.round()) {  // decided meanwhile
    return AnswerAgain(from, incoming.header, incoming.payload_bytes);
  }
  // The round was dropped, and perhaps begun again. Either the piece went away and came back
  // meanwhile, or a worker pushed what no correct worker pushes.
  if (piece->round == nullptr || piece->round->serial() != incoming.round_serial) return;
  bool awaited = parts_.members.IsPresent(from);
  if (incoming.fate == Fate::kNoRoom) {
    piece->round->ArriveAborted(from, incoming.header, awaited);
  } else {
    piece->round->Arrive(from, incoming.header, incoming.payload_bytes, awaited);
  }
  // A member that pushes the next round has the verdict.
  if (!piece->verdict.stable()) parts_.rounds.NoteHolder(*piece, from);
  parts_.rounds.DecideIfPossible(*piece);
}

Status Contributions::TakeAbort(Slot from, const wire::DataHeader& header, const std::string& why) {
  Status checked = CheckHeader(header);
  if (!checked.ok()) return checked;
  if (header.status == StatusCode::kOk) return WrongPush("it asks for no error");
  parts_.members.NoteEpoch(from, header.epoch);
  std::optional<uint64_t> since = parts_.view.Counts(header.ref, header.home, header.epoch);
  if (!since.has_value() || IsInVain(header.ref)) return checked;
  ProcessSet* set = parts_.sets.For(from, header.process_set);
  if (set == nullptr) return parts_.sets.NotTold(from, header.process_set);
  Piece& piece = parts_.pieces.At(header.ref, header.home, *since);
  if (header.ref.round <= piece.verdict.round()) {
    // The answer to the member's push may have crossed this request.
    if (!parts_.answers.HasAnswered(from, header.ref)) AnswerAgain(from, header, 0);
    return checked;
  }
  checked = NeedRound(piece, *set, from, header);
  if (!checked.ok()) return checked;
  Round& round = *piece.round;
  bool fresh = !round.HasArrived(from);
  if (fresh) round.ArriveAborted(from, header, parts_.members.IsPresent(from));
  if (!round.failure().has_value()) {
    // A member that has waited for too long does not know which ranks it waits for.
    const bool late = header.status == StatusCode::kDeadlineExceeded;
    std::string missing = late ? parts_.attendance.MissingRanks(piece, false) : "";
    std::string whom = missing.empty() ? "" : "; the tensor has no part of rank " + missing;
    round.Fail(Status(header.status, why + whom));
  }
  // A member that has begun this round has the verdict of the round before.
  if (fresh && !piece.verdict.stable()) parts_.rounds.NoteHolder(piece, from);
  parts_.rounds.DecideIfPossible(piece);
  return checked;
}

// Answers a push of a decided round with the verdict that is kept.
void Contributions::AnswerAgain(Slot to, const wire::DataHeader& header, size_t payload_bytes) {
  Piece* piece = parts_.pieces.Find(header.ref);
  if (piece == nullptr) return;
  if (!piece->verdict.Covers(header.ref.round) || piece->verdict.stable()) return;
  if (!parts_.rules.AnswersRepeats()) return;
  Contribution repeated;
  Announce(repeated, header, payload_bytes);
  parts_.rounds.Answer(*piece, header.ref, to, repeated);
  parts_.rounds.Settle(*piece);
}

}  // namespace byteps::protocol
