#include "src/protocol/shard/contributions.h"

#include <new>
#include <optional>
#include <string>

namespace byteps::protocol {
namespace {

Status WrongPush(const std::string& what) {
  return {StatusCode::kProtocol, "push refused: " + what};
}

Status CheckHeader(const ShardFacts& facts, const wire::DataHeader& header) {
  if (header.generation != facts.view.generation()) {
    return WrongPush("it belongs to another generation");
  }
  if (header.codec == 0) return Status::Ok();
  if (header.combine == Combine::kOverlay) return WrongPush("what is overlaid has no codec");
  bool nothing = header.want_bytes == 0;
  bool all = header.want_offset == 0 && header.want_bytes == header.piece_bytes;
  return nothing || all ? Status::Ok() : WrongPush("it wants a part of what is encoded");
}

Status CheckPush(const ShardFacts& facts, const wire::DataHeader& header, size_t payload_bytes) {
  Status checked = CheckHeader(facts, header);
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
Status CheckRound(const ShardFacts& facts, const Round& round, const ProcessSet& set, Slot from,
                  const wire::DataHeader& header) {
  auto wrong = [&](const std::string& what, const std::string& other) {
    return WrongPush(facts.members.NameOf(from) + " pushed " + what + " where " +
                     facts.attendance.PusherOf(round) + " pushed " + other);
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
Status CheckRepeat(const Piece& piece, const wire::DataHeader& header) {
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
bool IsInVain(const ShardFacts& facts, const wire::PieceRef& ref) {
  if (facts.pieces.IsForgotten(ref.tensor)) return true;
  if (!facts.pieces.IsVoid(ref)) return false;
  const Piece* piece = facts.pieces.Find(ref);
  return piece == nullptr || ref.round > piece->verdict.round();
}

Status NoMemory(const ShardFacts& facts, Slot from, size_t bytes) {
  return {StatusCode::kExhausted,
          "shard " + std::to_string(facts.view.self()) + " has no memory for " +
              std::to_string(bytes) + " bytes that " + facts.members.NameOf(from) +
              " pushed: give its server more (a limit of the container, or ulimit -v), start more "
              "servers, or lower BYTEPS_CREDIT_BYTES"};
}

// A member that was left behind may have gone on alone, with answers that no member has. It may
// have gone on to another round, or with other rows of an allgather.
Status NeedRound(ShardState& state, Piece& piece, ProcessSet& set, Slot from,
                 const wire::DataHeader& header) {
  bool overtaken = piece.round != nullptr && !state.facts.attendance.AnyMemberIn(*piece.round) &&
                   !CheckRound(state.facts, *piece.round, set, from, header).ok();
  if (overtaken) state.rounds.Drop(piece);
  if (piece.round == nullptr) return state.rounds.Open(piece, set, header);
  return CheckRound(state.facts, *piece.round, set, from, header);
}

Status PlaceInRound(ShardState& state, Piece& piece, ProcessSet& set, Slot from,
                    Incoming& incoming) {
  const wire::DataHeader& header = incoming.header;
  Status checked = NeedRound(state, piece, set, from, header);
  if (!checked.ok()) return checked;
  Round& round = *piece.round;
  incoming.fate = Fate::kRepeat;
  if (round.HasArrived(from)) return checked;
  incoming.round_serial = round.serial();
  try {
    incoming.place = round.PlaceOf(from, header, incoming.payload_bytes, state.pool, incoming.keep);
    incoming.fate = Fate::kContribution;
  } catch (const std::bad_alloc&) {
    round.DropBegun(from);
    round.Fail(NoMemory(state.facts, from, incoming.payload_bytes));
    incoming.fate = Fate::kNoRoom;
  }
  return checked;
}

// Answers a push of a decided round with the verdict that is kept.
void AnswerAgain(ShardState& state, Slot to, const wire::DataHeader& header, size_t payload_bytes) {
  Piece* piece = state.facts.pieces.Find(header.ref);
  if (piece == nullptr) return;
  if (!piece->verdict.Covers(header.ref.round) || piece->verdict.stable()) return;
  if (!state.options.rules->AnswersRepeats()) return;
  Contribution repeated;
  Announce(repeated, header, payload_bytes);
  state.rounds.Answer(*piece, header.ref, to, repeated);
  state.rounds.Settle(*piece);
}

void TakeContribution(ShardState& state, Slot from, const Incoming& incoming) {
  Piece* piece = state.facts.pieces.Find(incoming.header.ref);
  if (piece == nullptr) return;  // retired, or moved away while the payload came in
  if (incoming.header.ref.round <= piece->verdict.round()) {  // decided meanwhile
    return AnswerAgain(state, from, incoming.header, incoming.payload_bytes);
  }
  // The round was dropped, and perhaps begun again. Either the piece went away and came back
  // meanwhile, or a worker pushed what no correct worker pushes.
  if (piece->round == nullptr || piece->round->serial() != incoming.round_serial) return;
  bool awaited = state.facts.members.IsPresent(from);
  if (incoming.fate == Fate::kNoRoom) {
    piece->round->ArriveAborted(from, incoming.header, awaited);
  } else {
    piece->round->Arrive(from, incoming.header, incoming.payload_bytes, awaited);
  }
  // A member that pushes the next round has the verdict.
  if (!piece->verdict.stable()) state.rounds.NoteHolder(*piece, from);
  state.rounds.DecideIfPossible(*piece);
}

}  // namespace

Status PlacePush(ShardState& state, Slot from, Incoming& incoming) {
  const wire::DataHeader& header = incoming.header;
  Status checked = CheckPush(state.facts, header, incoming.payload_bytes);
  if (!checked.ok()) return checked;
  state.facts.members.NoteEpoch(from, header.epoch);
  std::optional<uint64_t> since = state.facts.view.Counts(header.ref, header.home, header.epoch);
  if (!since.has_value() || IsInVain(state.facts, header.ref)) return checked;
  ProcessSet* set = state.facts.sets.For(from, header.process_set);
  if (set == nullptr) return state.facts.sets.NotTold(from, header.process_set);
  Piece& piece = state.facts.pieces.At(header.ref, header.home, *since);
  if (header.ref.round > piece.verdict.round()) {
    return PlaceInRound(state, piece, *set, from, incoming);
  }
  incoming.fate = Fate::kRepeat;
  return CheckRepeat(piece, header);
}

void TakePush(ShardState& state, Slot from, const Incoming& incoming) {
  bool contributes = incoming.fate == Fate::kContribution || incoming.fate == Fate::kNoRoom;
  if (contributes) TakeContribution(state, from, incoming);
  if (incoming.fate == Fate::kRepeat) {
    AnswerAgain(state, from, incoming.header, incoming.payload_bytes);
  }
}

Status TakeAbort(ShardState& state, Slot from, const wire::DataHeader& header,
                 const std::string& why) {
  Status checked = CheckHeader(state.facts, header);
  if (!checked.ok()) return checked;
  if (header.status == StatusCode::kOk) return WrongPush("it asks for no error");
  state.facts.members.NoteEpoch(from, header.epoch);
  std::optional<uint64_t> since = state.facts.view.Counts(header.ref, header.home, header.epoch);
  if (!since.has_value() || IsInVain(state.facts, header.ref)) return checked;
  ProcessSet* set = state.facts.sets.For(from, header.process_set);
  if (set == nullptr) return state.facts.sets.NotTold(from, header.process_set);
  Piece& piece = state.facts.pieces.At(header.ref, header.home, *since);
  if (header.ref.round <= piece.verdict.round()) {
    // The answer to the member's push may have crossed this request.
    if (!state.answers.HasAnswered(from, header.ref)) AnswerAgain(state, from, header, 0);
    return checked;
  }
  checked = NeedRound(state, piece, *set, from, header);
  if (!checked.ok()) return checked;
  Round& round = *piece.round;
  bool fresh = !round.HasArrived(from);
  if (fresh) round.ArriveAborted(from, header, state.facts.members.IsPresent(from));
  if (!round.failure().has_value()) {
    // A member that has waited for too long does not know which ranks it waits for.
    const bool late = header.status == StatusCode::kDeadlineExceeded;
    std::string missing = late ? state.facts.attendance.MissingRanks(piece, false) : "";
    std::string whom = missing.empty() ? "" : "; the tensor has nothing from rank " + missing;
    round.Fail(Status(header.status, why + whom));
  }
  // A member that has begun this round has the verdict of the round before.
  if (fresh && !piece.verdict.stable()) state.rounds.NoteHolder(piece, from);
  state.rounds.DecideIfPossible(piece);
  return checked;
}

}  // namespace byteps::protocol
