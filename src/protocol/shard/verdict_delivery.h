// Brings a verdict to the members that wait for it, and notices when everybody has it. Who wants
// nothing of it is answered after those who want its bytes (idle_members.h).
#pragma once

#include "src/base/time.h"
#include "src/protocol/shard/answers.h"
#include "src/protocol/shard/state/members.h"
#include "src/protocol/shard/state/piece_table.h"

namespace byteps::protocol {

// No state of its own but the time of the last event. One thread at a time.
class VerdictDelivery {
 public:
  // Both outlive it.
  VerdictDelivery(const Members& members, Answers& answers)
      : members_(members), answers_(answers) {}

  void SetTime(Time now) { now_ = now; }

  // `slot` pushed `ref`, which the piece's verdict covers: it is answered at once, or when those
  // that want bytes have them.
  void Answer(Piece& piece, const wire::PieceRef& ref, Slot slot, const Contribution& pushed);
  // Everybody who has pushed the round is answered. REQUIRES: the verdict covers it.
  void AnswerAll(Piece& piece, const Round& round);
  // Nobody needs the verdict any more: idle members are answered now, and who told it need not keep
  // it.
  void Drop(Piece& piece);
  // A later verdict takes the place of one that some were not known to hold. That may have made
  // answers stable, which is news to those that still keep the former.
  void NotePassed() { answers_.NoteStable(now_); }

  // These four are true when with this everybody holds the verdict, and it was not so before: an
  // error of the next round may have waited for that.
  // `slot` holds what ended `round`. REQUIRES: the verdict covers it, and is not stable.
  bool NoteHolder(Piece& piece, Slot slot, uint64_t round);
  // Members have come, gone or joined. REQUIRES: it is not stable.
  bool Recount(Piece& piece);
  // A verdict has been set, and those that wait for it are answered.
  bool Settle(Piece& piece);
  // Another member says that everybody holds the verdict of `round`; true as above.
  bool NoteStable(Piece& piece, uint64_t round);

 private:
  void AnswerIdleIfDue(Piece& piece);
  void AnswerIdleNow(Piece& piece);
  void BecomeStable(Piece& piece);

  const Members& members_;
  Answers& answers_;
  Time now_{};
};

}  // namespace byteps::protocol
