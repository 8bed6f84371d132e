#include "src/protocol/shard/verdict_delivery.h"

#include <memory>

namespace byteps::protocol {

namespace {

// Returns whether the verdict has the wanted bytes. An encoded verdict has only the whole.
bool IsThere(const Verdict& verdict, const Contribution& wanted) {
  if (verdict.empty()) return false;
  uint32_t size = verdict.terms().piece_bytes;
  if (verdict.terms().codec != 0) return wanted.want_offset == 0 && wanted.want_bytes == size;
  return uint64_t{wanted.want_offset} + wanted.want_bytes <= size;
}

}  // namespace

void VerdictDelivery::Answer(Piece& piece, const wire::PieceRef& ref, Slot slot,
                             const Contribution& pushed) {
  Verdict& verdict = piece.verdict;
  if (verdict.IsError()) return answers_.SendError(piece, ref, slot, pushed.priority);
  // Another member brought this verdict. No correct worker wants bytes that are not in it.
  if (pushed.want_bytes > 0 && !IsThere(verdict, pushed)) return;
  if (pushed.idle) return verdict.NeedIdle().Add(ref, slot, pushed.priority);
  answers_.Send(piece, ref, slot, {pushed.want_offset, pushed.want_bytes, pushed.priority});
}

void VerdictDelivery::AnswerAll(Piece& piece, const Round& round) {
  const std::vector<Contribution>& contributions = round.contributions();
  for (Slot slot = 0; slot < contributions.size(); ++slot) {
    if (!contributions[slot].arrived || !members_.IsServed(slot)) continue;
    Answer(piece, round.ref(), slot, contributions[slot]);
  }
  IdleMembers* idle = piece.verdict.idle();
  // A member that pushed the whole piece has the bytes, even if it does not know that the piece is
  // decided.
  for (Slot slot = 0; idle != nullptr && slot < contributions.size(); ++slot) {
    if (contributions[slot].HasAll()) idle->NoteHasAll(slot);
  }
}

// Answers the idle members, if every member that needs the verdict holds it, or wants nothing of
// it.
void VerdictDelivery::AnswerIdleIfDue(Piece& piece) {
  const Verdict& verdict = piece.verdict;
  if (verdict.idle() == nullptr) return;
  for (Slot slot = 0; slot < members_.size(); ++slot) {
    bool settled = verdict.IsHeldBy(slot) || verdict.idle()->IsSettled(slot);
    if (verdict.Needs(slot, members_) && !settled) return;
  }
  AnswerIdleNow(piece);
}

void VerdictDelivery::AnswerIdleNow(Piece& piece) {
  if (piece.verdict.idle() == nullptr) return;
  std::unique_ptr<IdleMembers> idle = piece.verdict.TakeIdle();
  for (Slot slot : idle->waiting()) {
    bool here = slot < members_.size() && members_.IsServed(slot);
    if (here) answers_.Send(piece, idle->ref(), slot, {0, 0, idle->priority()});
  }
}

void VerdictDelivery::Drop(Piece& piece) {
  AnswerIdleNow(piece);
  if (!piece.verdict.stable()) BecomeStable(piece);
}

void VerdictDelivery::BecomeStable(Piece& piece) {
  piece.verdict.BecomeStable();
  answers_.NoteStable(now_);
}

bool VerdictDelivery::NoteHolder(Piece& piece, Slot slot, uint64_t round) {
  if (round < piece.verdict.round()) {
    piece.verdict.AddErrorHolder(slot, round);
    answers_.NoteStable(now_);
    return false;
  }
  return piece.verdict.AddHolder(slot, members_) && Settle(piece);
}

bool VerdictDelivery::Recount(Piece& piece) {
  piece.verdict.Recount(members_);
  return Settle(piece);
}

bool VerdictDelivery::Settle(Piece& piece) {
  if (piece.verdict.stable()) return false;
  AnswerIdleIfDue(piece);  // includes members that wait for a verdict that becomes stable now
  if (piece.verdict.lacking() > 0) return false;
  BecomeStable(piece);
  return true;
}

bool VerdictDelivery::NoteStable(Piece& piece, uint64_t round) {
  bool was_stable = piece.verdict.stable();
  piece.verdict.SetStable(round);
  if (was_stable) return false;
  answers_.NoteStable(now_);
  return true;
}

}  // namespace byteps::protocol
