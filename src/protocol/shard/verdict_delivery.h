// Brings a verdict to the members that wait for it, and notices when every member has it. A member
// that wants nothing of it is answered after the members that want its bytes (idle_members.h).
#pragma once

#include "src/base/time.h"
#include "src/protocol/shard/answers.h"
#include "src/protocol/shard/state/members.h"
#include "src/protocol/shard/state/piece_table.h"

namespace byteps::protocol {

// Its only state is the time of the last event. One thread at a time.
class VerdictDelivery {
 public:
  // Both must outlive this object.
  VerdictDelivery(const Members& members, Answers& answers)
      : members_(members), answers_(answers) {}

  void SetTime(Time now) { now_ = now; }

  // Answers `slot`, which pushed `ref`, at once, or when the members that want bytes have them.
  // REQUIRES: the piece's verdict covers `ref`.
  void Answer(Piece& piece, const wire::PieceRef& ref, Slot slot, const Contribution& pushed);
  // Answers every member that has pushed the round. REQUIRES: the verdict covers the round.
  void AnswerAll(Piece& piece, const Round& round);
  // Drops the verdict, because no member needs it any more. Idle members are answered now, and a
  // member that told the verdict need not keep it.
  void Drop(Piece& piece);
  // Notes that a later verdict replaces one that some members were not known to hold. Answers may
  // have become stable by this, which is news to members that still keep the older verdict.
  void NotePassed() { answers_.NoteStable(now_); }

  // The next four return true if every member holds the verdict now, and not all did before. An
  // error of the next round may have waited for that.
  // NoteHolder notes that `slot` holds what ended `round`. REQUIRES: the verdict covers `round`,
  // and is not stable.
  bool NoteHolder(Piece& piece, Slot slot, uint64_t round);
  // Counts again, because members have come, gone or joined. REQUIRES: the verdict is not stable.
  bool Recount(Piece& piece);
  // Handles a verdict that has been set, after the members that wait for it were answered.
  bool Settle(Piece& piece);
  // Notes that another member says that every member holds the verdict of `round`.
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
