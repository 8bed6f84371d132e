#include "src/protocol/shard/piece_review.h"

#include <functional>
#include <unordered_set>

namespace byteps::protocol {
namespace {

// No member waits for a round that failed with the name. A member that has said all it holds has no
// answer of that round to read, except the answers that are under way.
void ReleaseVoid(ShardState& state, Piece& piece) {
  Verdict& verdict = piece.verdict;
  if (!state.facts.pieces.IsVoid({piece.tensor, piece.index, verdict.round()})) return;
  const Members& members = state.facts.members;
  for (Slot slot = 0; slot < members.size() && !verdict.stable(); ++slot) {
    bool all_said = members.IsServed(slot) && members.resynced(slot) >= piece.since;
    bool waits = verdict.IsWaitedForBy(slot) || state.answers.IsUnderWay(piece, slot);
    if (all_said && !waits) state.rounds.NoteHolder(piece, slot);
  }
}

void DropTensors(ShardState& state, const std::function<bool(TensorId)>& unwanted) {
  state.facts.pieces.EraseIf([&](Piece& piece) {
    if (!unwanted(piece.tensor)) return false;
    state.rounds.Forget(piece);
    return true;
  });
}

}  // namespace

void ReviewPieces(ShardState& state, uint64_t old_epoch) {
  // Answers about pieces that leave this shard count as stable. They may have held back the news
  // about other answers.
  state.answers.NoteStable();
  state.facts.pieces.EraseIf([&](Piece& piece) {
    if (state.facts.view.Stays(piece.tensor, piece.index, piece.home, old_epoch)) return false;
    state.rounds.Drop(piece);
    return true;
  });
  state.facts.pieces.ForEach([&](Piece& piece) {
    Round* round = piece.round.get();
    if (round != nullptr) round->SetMissing(state.facts.attendance.CountMissing(*round));
    if (!piece.verdict.stable()) state.rounds.Recount(piece);
    state.rounds.DecideIfPossible(piece);
  });
}

void RetireTensors(ShardState& state, const std::vector<TensorId>& tensors, uint64_t use) {
  state.facts.pieces.Retire(tensors, use);
  state.facts.pieces.ForEachOfRetired([&](Piece& piece) {
    bool in_vain = piece.round != nullptr && state.facts.pieces.IsVoid(piece.round->ref());
    if (in_vain) state.rounds.Drop(piece);
  });
  ReviewRetired(state);
}

// A member may not know that all members have the verdict, and tell it to the next owner. So that
// owner remembers that the verdict is stable. Members that know it remember it, too.
void ReviewRetired(ShardState& state) {
  state.facts.pieces.ForEachOfRetired([&](Piece& piece) { ReleaseVoid(state, piece); });
  state.facts.pieces.EraseSettled(
      [&](const Piece& piece) { return state.facts.view.AlwaysMine(piece.since); });
}

void ForgetTensors(ShardState& state, const std::vector<TensorId>& tensors) {
  const std::unordered_set<TensorId> forgotten(tensors.begin(), tensors.end());
  DropTensors(state, [&](TensorId tensor) { return forgotten.contains(tensor); });
  state.facts.pieces.Forget(tensors);
}

void DropUnknown(ShardState& state, const wire::StillKnown& known) {
  std::unordered_set<TensorId> still(known.tensors.begin(), known.tensors.end());
  DropTensors(state, [&](TensorId tensor) {
    return tensor >= known.first && tensor < known.end && !still.contains(tensor);
  });
}

}  // namespace byteps::protocol
