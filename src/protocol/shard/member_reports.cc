#include "src/protocol/shard/member_reports.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "src/protocol/shard/told_verdicts.h"

namespace byteps::protocol {

void TakeAck(ShardState& state, Slot from, uint64_t number) {
  number = std::min(number, state.answers.sent(from));
  while (std::optional<Answered> answered = state.answers.NextAcknowledged(from, number)) {
    Piece* piece = state.facts.pieces.Find(answered->ref);
    bool current = piece != nullptr && piece->verdict.Covers(answered->ref.round) &&
                   piece->since == answered->since;
    if (!current || piece->verdict.stable()) continue;
    state.rounds.NoteHolder(*piece, from, answered->ref.round);
  }
}

void TakeHave(ShardState& state, Slot from, uint64_t epoch,
              const std::vector<wire::HeldPiece>& pieces) {
  for (const wire::HeldPiece& held : pieces) {
    if (!state.facts.view.IsShard(held.home)) continue;
    std::optional<uint64_t> since = state.facts.view.Counts(held.ref, held.home, epoch);
    if (since.has_value()) TakeHeldPiece(state, from, held, *since);
  }
}

void TakeResync(ShardState& state, Slot from, uint64_t epoch) {
  state.facts.members.NoteResync(from, epoch);
  state.facts.pieces.ForEach([&](Piece& piece) { state.rounds.DecideIfPossible(piece); });
}

void TakeJoined(ShardState& state, Slot from, uint64_t number, ConstByteSpan bitmap) {
  RankSet ranks = RankSet::FromBitmap(bitmap);
  if (ranks.empty() && !bitmap.empty()) return;  // none of these ranks has joined
  state.facts.members.NoteJoin(from, number, std::move(ranks));
  state.facts.pieces.ForEach([&](Piece& piece) {
    if (!piece.verdict.stable()) state.rounds.Recount(piece);
    state.rounds.DecideIfPossible(piece);
  });
}

}  // namespace byteps::protocol
