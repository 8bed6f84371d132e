#include "src/protocol/shard/told_verdicts.h"

#include <memory>
#include <string>
#include <utility>

namespace byteps::protocol {
namespace {

Status WrongVerdict(const std::string& what) {
  return {StatusCode::kProtocol, "verdict refused: " + what};
}

}  // namespace

Status ToldVerdicts::Place(Slot from, Incoming& incoming) {
  const wire::DataHeader& header = incoming.header;
  if (header.generation != parts_.view.generation()) {
    return WrongVerdict("it belongs to another generation");
  }
  size_t payload_bytes = incoming.payload_bytes;
  bool whole = ToldVerdict{header, BufferRef(), payload_bytes}.IsWhole();
  size_t bytes_max = size_t{piece_bytes_max_} + wire::kCodecExtraBytesMax + wire::kMembersMax;
  if (!whole || payload_bytes > bytes_max) {
    return WrongVerdict("it is not the whole verdict");
  }
  parts_.members.NoteEpoch(from, header.epoch);
  std::optional<uint64_t> since = parts_.view.Counts(header.ref, header.home, header.epoch);
  if (!since.has_value() || parts_.pieces.IsForgotten(header.ref.tensor)) return Status::Ok();
  const Piece* piece = parts_.pieces.Find(header.ref);
  uint64_t decided = piece == nullptr ? 0 : piece->verdict.round();
  bool retired = parts_.pieces.IsRetired(header.ref.tensor);
  if (parts_.view.AlwaysMine(*since) && header.ref.round > decided && !retired) {
    return WrongVerdict(parts_.members.NameOf(from) + " tells the verdict of round " +
                        std::to_string(header.ref.round) + ", which nobody has decided");
  }
  incoming.fate = Fate::kVerdict;
  incoming.keep = parts_.pool.Take(payload_bytes);
  incoming.place = ByteSpan(incoming.keep.data(), payload_bytes);
  return Status::Ok();
}

void ToldVerdicts::Take(Slot from, const Incoming& incoming) {
  const wire::DataHeader& header = incoming.header;
  std::optional<uint64_t> since = parts_.view.Counts(header.ref, header.home, header.epoch);
  if (incoming.fate != Fate::kVerdict) return;
  // The view came while the payload did, or the ranks let go of the tensor.
  if (!since.has_value() || parts_.pieces.IsForgotten(header.ref.tensor)) return;
  Piece& piece = parts_.pieces.At(header.ref, header.home, *since);
  ToldVerdict told{header, incoming.keep, incoming.payload_bytes};
  // The tensor is retired, and this shard has forgotten the verdict, because every member has it.
  bool dropped = parts_.view.AlwaysMine(*since) && header.ref.round > piece.verdict.round();
  if (dropped && piece.round == nullptr) parts_.rounds.NoteStable(piece, header.ref.round);
  if (!dropped && parts_.rules.Adopts(piece, from, told)) Adopt(piece, told);
  bool holds = piece.verdict.Covers(header.ref.round);
  if (holds && !piece.verdict.stable()) parts_.rounds.NoteHolder(piece, from, header.ref.round);
  parts_.rounds.Settle(piece);
  parts_.answers.Confirm(piece, header.ref, from);
}

// A verdict in hand wins over contributions. Contributions to the next round stay, because their
// senders hold this verdict.
void ToldVerdicts::Adopt(Piece& piece, const ToldVerdict& told) {
  SetVerdict(piece, told);
  if (piece.round == nullptr) return;
  const Round& round = *piece.round;
  if (parts_.rules.KeepsContributions(round.ref().round, told.header.ref.round)) {
    for (Slot slot = 0; slot < round.contributions().size(); ++slot) {
      if (round.HasArrived(slot)) piece.verdict.NoteHolder(slot);
    }
    return parts_.rounds.Recount(piece);
  }
  parts_.rounds.EndAdopted(piece);
}

void ToldVerdicts::SetVerdict(Piece& piece, const ToldVerdict& told) {
  const wire::DataHeader& header = told.header;
  VerdictTerms terms{.round = header.ref.round,
                     .combine = header.combine,
                     .dtype = header.dtype,
                     .piece_bytes = header.piece_bytes,
                     .codec = header.codec};
  Receipt receipt = told.receipt();
  const Receipt& everybody = parts_.members.everybody();
  if (receipt == nullptr || *receipt == *everybody) receipt = everybody;
  Verdict& verdict = piece.verdict;
  // A later verdict replaces one that some members were not known to hold. Answers may have become
  // stable by this, which is news to members that still keep the older verdict.
  if (!verdict.stable()) parts_.answers.NoteStable();
  if (told.IsError()) return verdict.SetErrors(terms, receipt, parts_.members, told.errors());
  if (told.IsEmpty()) return verdict.SetEmpty(terms, receipt, parts_.members);
  verdict.SetBytes(terms, receipt, parts_.members,
                   told.CopyOfContent(parts_.pool, parts_.arithmetic),
                   static_cast<uint32_t>(told.content().size()));
}

// If no other shard has ever owned the piece, this shard has told the members which verdicts are
// stable. The only news is that the sender has a verdict that only it needs.
void ToldVerdicts::TakeHave(Slot from, const wire::HeldPiece& held, uint64_t since) {
  if (parts_.pieces.IsForgotten(held.ref.tensor)) return;
  if (parts_.view.AlwaysMine(since)) {
    Piece* piece = parts_.pieces.Find(held.ref);
    bool lacks =
        piece != nullptr && piece->verdict.round() == held.ref.round && !piece->verdict.stable();
    if (lacks) parts_.rounds.NoteHolder(*piece, from);
    return;
  }
  Piece& piece = parts_.pieces.At(held.ref, held.home, since);
  if (piece.round != nullptr && piece.round->ref().round <= held.ref.round) return;
  if (held.ref.round < piece.verdict.round()) return;
  parts_.rounds.NoteStable(piece, held.ref.round);
}

}  // namespace byteps::protocol
