#include "src/protocol/shard/member_reports.h"

#include <algorithm>

namespace byteps::protocol {

void MemberReports::TakeAck(Slot from, uint64_t number) {
  number = std::min(number, parts_.answers.sent(from));
  while (std::optional<Answered> answered = parts_.answers.NextAcknowledged(from, number)) {
    Piece* piece = parts_.pieces.Find(answered->ref);
    bool current = piece != nullptr && piece->verdict.Covers(answered->ref.round) &&
                   piece->since == answered->since;
    if (!current || piece->verdict.stable()) continue;
    parts_.rounds.NoteHolder(*piece, from, answered->ref.round);
  }
}

void MemberReports::TakeHave(Slot from, uint64_t epoch,
                             const std::vector<wire::HeldPiece>& pieces) {
  for (const wire::HeldPiece& held : pieces) {
    if (!parts_.view.IsShard(held.home)) continue;
    std::optional<uint64_t> since = parts_.view.Counts(held.ref, held.home, epoch);
    if (since.has_value()) parts_.told.TakeHave(from, held, *since);
  }
}

void MemberReports::TakeResync(Slot from, uint64_t epoch) {
  parts_.members.NoteResync(from, epoch);
  parts_.pieces.ForEach([&](Piece& piece) { parts_.rounds.DecideIfPossible(piece); });
}

void MemberReports::TakeJoined(Slot from, uint64_t number, ConstByteSpan bitmap) {
  RankSet ranks = RankSet::FromBitmap(bitmap);
  if (ranks.empty() && !bitmap.empty()) return;  // none of these ranks has joined
  parts_.members.NoteJoin(from, number, std::move(ranks));
  parts_.pieces.ForEach([&](Piece& piece) {
    if (!piece.verdict.stable()) parts_.rounds.Recount(piece);
    parts_.rounds.DecideIfPossible(piece);
  });
}

}  // namespace byteps::protocol
