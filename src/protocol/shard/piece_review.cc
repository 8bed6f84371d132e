#include "src/protocol/shard/piece_review.h"

#include <unordered_set>

namespace byteps::protocol {

void PieceReview::OnView(uint64_t old_epoch) {
  // Answers about pieces that leave this shard count as stable. They may have held back the news
  // about other answers.
  parts_.answers.NoteStable();
  parts_.pieces.EraseIf([&](Piece& piece) {
    if (parts_.view.Stays(piece.tensor, piece.index, piece.home, old_epoch)) return false;
    parts_.rounds.Drop(piece);
    return true;
  });
  parts_.pieces.ForEach([&](Piece& piece) {
    Round* round = piece.round.get();
    if (round != nullptr) round->SetMissing(parts_.attendance.CountMissing(*round));
    if (!piece.verdict.stable()) parts_.rounds.Recount(piece);
    parts_.rounds.DecideIfPossible(piece);
  });
}

void PieceReview::Retire(const std::vector<TensorId>& tensors, uint64_t use) {
  parts_.pieces.Retire(tensors, use);
  parts_.pieces.ForEachOfRetired([&](Piece& piece) {
    bool in_vain = piece.round != nullptr && parts_.pieces.IsVoid(piece.round->ref());
    if (in_vain) parts_.rounds.Drop(piece);
  });
  ReviewRetired();
}

// A member may not know that all members have the verdict, and tell it to the next owner. So that
// owner remembers that the verdict is stable. Members that know it remember it, too.
void PieceReview::ReviewRetired() {
  parts_.pieces.ForEachOfRetired([&](Piece& piece) { ReleaseVoid(piece); });
  parts_.pieces.EraseSettled(
      [&](const Piece& piece) { return parts_.view.AlwaysMine(piece.since); });
}

// No member waits for a round that failed with the name. A member that has said all it holds has no
// answer of that round to read, except the answers that are under way.
void PieceReview::ReleaseVoid(Piece& piece) {
  Verdict& verdict = piece.verdict;
  if (!parts_.pieces.IsVoid({piece.tensor, piece.index, verdict.round()})) return;
  const Members& members = parts_.attendance.members();
  for (Slot slot = 0; slot < members.size() && !verdict.stable(); ++slot) {
    bool all_said = members.IsServed(slot) && members.resynced(slot) >= piece.since;
    bool waits = verdict.IsWaitedForBy(slot) || parts_.answers.IsUnderWay(piece, slot);
    if (all_said && !waits) parts_.rounds.NoteHolder(piece, slot);
  }
}

void PieceReview::OnForgotten(const std::vector<TensorId>& tensors) {
  const std::unordered_set<TensorId> forgotten(tensors.begin(), tensors.end());
  DropTensors([&](TensorId tensor) { return forgotten.contains(tensor); });
  parts_.pieces.Forget(tensors);
}

void PieceReview::OnStillKnown(const wire::StillKnown& known) {
  std::unordered_set<TensorId> still(known.tensors.begin(), known.tensors.end());
  DropTensors([&](TensorId tensor) {
    return tensor >= known.first && tensor < known.end && !still.contains(tensor);
  });
}

void PieceReview::DropTensors(const std::function<bool(TensorId)>& unwanted) {
  parts_.pieces.EraseIf([&](Piece& piece) {
    if (!unwanted(piece.tensor)) return false;
    parts_.rounds.Forget(piece);
    return true;
  });
}

}  // namespace byteps::protocol
