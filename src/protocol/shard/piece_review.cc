#include "src/protocol/shard/piece_review.h"

#include <unordered_set>

namespace byteps::protocol {

void PieceReview::OnView(uint64_t old_epoch, Time now) {
  // Answers about pieces that go away here count as stable, and may have held back news of others.
  parts_.answers.NoteStable(now);
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

void PieceReview::Retire(const std::vector<TensorId>& tensors) {
  std::unordered_set<TensorId> now(tensors.begin(), tensors.end());
  for (TensorId tensor : tensors) parts_.pieces.Retire(tensor);
  DropTensors([&](TensorId tensor) { return now.contains(tensor); });
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
    // The round before the one that failed has ended for somebody: it ends for all.
    parts_.delivery.AnswerIdleNow(piece);
    parts_.rounds.Drop(piece);
    return true;
  });
}

}  // namespace byteps::protocol
