// What members say besides pushes and verdicts: which answers have come, what all hold, that they
// have said all, and that they have joined.
#pragma once

#include <vector>

#include "src/protocol/shard/answers.h"
#include "src/protocol/shard/rounds.h"
#include "src/protocol/shard/told_verdicts.h"

namespace byteps::protocol {

// No state of its own. One thread at a time. REQUIRES of all: the sender is a slot of the
// generation, and the view of `epoch` is in force or was.
class MemberReports {
 public:
  // What it works with; all of it outlives this.
  struct Parts {
    const ShardView& view;
    Members& members;
    PieceTable& pieces;
    Answers& answers;
    Rounds& rounds;
    ToldVerdicts& told;
  };
  explicit MemberReports(const Parts& parts) : parts_(parts) {}

  // All answers to `from` up to this number have come; more than were sent: all.
  void TakeAck(Slot from, uint64_t number);
  // `from` holds these verdicts, and all members do.
  void TakeHave(Slot from, uint64_t epoch, const std::vector<wire::HeldPiece>& pieces);
  // `from` has said all it holds of pieces that this shard owns since `epoch` or earlier.
  void TakeResync(Slot from, uint64_t epoch);
  // `from` takes no part in rounds until this join is over.
  void TakeJoined(Slot from, uint64_t number, ConstByteSpan bitmap = {});

 private:
  const Parts parts_;
};

}  // namespace byteps::protocol
