#include "src/protocol/shard/told_verdicts.h"

#include <optional>
#include <string>

#include "src/protocol/shard/state/told_verdict.h"

namespace byteps::protocol {
namespace {

Status WrongVerdict(const std::string& what) {
  return {StatusCode::kProtocol, "verdict refused: " + what};
}

void SetVerdict(ShardState& state, Piece& piece, const ToldVerdict& told) {
  const wire::DataHeader& header = told.header;
  VerdictTerms terms{.round = header.ref.round,
                     .combine = header.combine,
                     .dtype = header.dtype,
                     .piece_bytes = header.piece_bytes,
                     .codec = header.codec};
  Receipt receipt = told.receipt();
  const Receipt& everybody = state.facts.members.everybody();
  if (receipt == nullptr || *receipt == *everybody) receipt = everybody;
  Verdict& verdict = piece.verdict;
  // A later verdict replaces one that some members were not known to hold. Answers may have become
  // stable by this, which is news to members that still keep the older verdict.
  if (!verdict.stable()) state.answers.NoteStable();
  if (told.IsError()) return verdict.SetErrors(terms, receipt, state.facts.members, told.errors());
  if (told.IsEmpty()) return verdict.SetEmpty(terms, receipt, state.facts.members);
  verdict.SetBytes(terms, receipt, state.facts.members,
                   told.CopyOfContent(state.pool, state.arithmetic),
                   static_cast<uint32_t>(told.content().size()));
}

// A verdict in hand wins over contributions. Contributions to the next round stay, because their
// senders hold this verdict.
void Adopt(ShardState& state, Piece& piece, const ToldVerdict& told) {
  SetVerdict(state, piece, told);
  if (piece.round == nullptr) return;
  const Round& round = *piece.round;
  if (state.options.rules->KeepsContributions(round.ref().round, told.header.ref.round)) {
    for (Slot slot = 0; slot < round.contributions().size(); ++slot) {
      if (round.HasArrived(slot)) piece.verdict.NoteHolder(slot);
    }
    return state.rounds.Recount(piece);
  }
  state.rounds.EndAdopted(piece);
}

}  // namespace

Status PlaceToldVerdict(ShardState& state, Slot from, Incoming& incoming) {
  const wire::DataHeader& header = incoming.header;
  if (header.generation != state.facts.view.generation()) {
    return WrongVerdict("it belongs to another generation");
  }
  size_t payload_bytes = incoming.payload_bytes;
  bool whole = ToldVerdict{header, BufferRef(), payload_bytes}.IsWhole();
  size_t bytes_max =
      size_t{state.options.piece_bytes_max} + wire::kCodecExtraBytesMax + wire::kMembersMax;
  if (!whole || payload_bytes > bytes_max) {
    return WrongVerdict("it is not the whole verdict");
  }
  state.facts.members.NoteEpoch(from, header.epoch);
  std::optional<uint64_t> since = state.facts.view.Counts(header.ref, header.home, header.epoch);
  if (!since.has_value() || state.facts.pieces.IsForgotten(header.ref.tensor)) return Status::Ok();
  const Piece* piece = state.facts.pieces.Find(header.ref);
  uint64_t decided = piece == nullptr ? 0 : piece->verdict.round();
  bool retired = state.facts.pieces.IsRetired(header.ref.tensor);
  if (state.facts.view.AlwaysMine(*since) && header.ref.round > decided && !retired) {
    return WrongVerdict(state.facts.members.NameOf(from) + " tells the verdict of round " +
                        std::to_string(header.ref.round) + ", which nobody has decided");
  }
  incoming.fate = Fate::kVerdict;
  incoming.keep = state.pool.Take(payload_bytes);
  incoming.place = ByteSpan(incoming.keep.data(), payload_bytes);
  return Status::Ok();
}

void TakeToldVerdict(ShardState& state, Slot from, const Incoming& incoming) {
  const wire::DataHeader& header = incoming.header;
  std::optional<uint64_t> since = state.facts.view.Counts(header.ref, header.home, header.epoch);
  if (incoming.fate != Fate::kVerdict) return;
  // The view came while the payload did, or the ranks let go of the tensor.
  if (!since.has_value() || state.facts.pieces.IsForgotten(header.ref.tensor)) return;
  Piece& piece = state.facts.pieces.At(header.ref, header.home, *since);
  ToldVerdict told{header, incoming.keep, incoming.payload_bytes};
  // The tensor is retired, and this shard has forgotten the verdict, because every member has it.
  bool dropped = state.facts.view.AlwaysMine(*since) && header.ref.round > piece.verdict.round();
  if (dropped && piece.round == nullptr) state.rounds.NoteStable(piece, header.ref.round);
  if (!dropped && state.options.rules->Adopts(piece, from, told)) Adopt(state, piece, told);
  bool holds = piece.verdict.Covers(header.ref.round);
  if (holds && !piece.verdict.stable()) state.rounds.NoteHolder(piece, from, header.ref.round);
  state.rounds.Settle(piece);
  state.answers.Confirm(piece, header.ref, from);
}

// If no other shard has ever owned the piece, this shard has told the members which verdicts are
// stable. The only news is that the sender has a verdict that only it needs.
void TakeHeldPiece(ShardState& state, Slot from, const wire::HeldPiece& held, uint64_t since) {
  if (state.facts.pieces.IsForgotten(held.ref.tensor)) return;
  if (state.facts.view.AlwaysMine(since)) {
    Piece* piece = state.facts.pieces.Find(held.ref);
    bool lacks =
        piece != nullptr && piece->verdict.round() == held.ref.round && !piece->verdict.stable();
    if (lacks) state.rounds.NoteHolder(*piece, from);
    return;
  }
  Piece& piece = state.facts.pieces.At(held.ref, held.home, since);
  if (piece.round != nullptr && piece.round->ref().round <= held.ref.round) return;
  if (held.ref.round < piece.verdict.round()) return;
  state.rounds.NoteStable(piece, held.ref.round);
}

}  // namespace byteps::protocol
