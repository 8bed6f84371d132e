// Takes the reports of members besides pushes and verdicts: the answers that have come, the
// verdicts that all hold, that a member has said all it holds, and that it has joined.
#pragma once

#include <vector>

#include "src/protocol/shard/answers.h"
#include "src/protocol/shard/rounds.h"
#include "src/protocol/shard/told_verdicts.h"

namespace byteps::protocol {

// No state of its own. One thread at a time. REQUIRES of all methods: the sender is a slot of the
// generation, and the view of `epoch` is in force or was.
class MemberReports {
 public:
  // The objects that this class works with. All of them must outlive this object.
  struct Parts {
    const ShardView& view;
    Members& members;
    PieceTable& pieces;
    Answers& answers;
    Rounds& rounds;
    ToldVerdicts& told;
  };
  explicit MemberReports(const Parts& parts) : parts_(parts) {}

  // Notes that `from` has all answers up to this number. A number that was never sent counts as the
  // last sent one.
  void TakeAck(Slot from, uint64_t number);
  // Notes that `from` holds these verdicts, and that all members do.
  void TakeHave(Slot from, uint64_t epoch, const std::vector<wire::HeldPiece>& pieces);
  // Notes that `from` has said all it holds of pieces that this shard owns since `epoch` or
  // earlier.
  void TakeResync(Slot from, uint64_t epoch);
  // Notes that `from` takes no part in rounds until this join is over. `bitmap`: its ranks that
  // have joined; empty: all of them.
  void TakeJoined(Slot from, uint64_t number, ConstByteSpan bitmap = {});

 private:
  const Parts parts_;
};

}  // namespace byteps::protocol
