// Pushes: what one may say, where its payload goes, and what becomes of it: a contribution to a
// round, a repeat that is answered from the verdict, or nothing.
#pragma once

#include <cstddef>
#include <string>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/base/time.h"
#include "src/protocol/shard/intake.h"
#include "src/protocol/shard/rounds.h"
#include "src/protocol/shard/state/attendance.h"
#include "src/protocol/shard/state/process_sets.h"
#include "src/protocol/shard/state/shard_rules.h"

namespace byteps::protocol {

// No state of its own. One thread at a time; steady state allocates nothing.
class Pushes {
 public:
  // What it works with; all of it outlives this.
  struct Parts {
    BufferPool& pool;
    const ShardRules& rules;
    const ShardView& view;
    Members& members;
    const Attendance& attendance;
    ProcessSets& sets;
    PieceTable& pieces;
    Answers& answers;
    Rounds& rounds;
    VerdictDelivery& delivery;
  };
  explicit Pushes(const Parts& parts) : parts_(parts) {}

  // Writes down where the payload goes; header and size of `incoming` are filled in. kProtocol: no
  // correct worker of this view sends that; kExhausted: twice too many rounds are open.
  // REQUIRES: the sender is a member, the header's home a shard.
  Status Place(Slot from, Incoming& incoming, Time now);
  // The payload is in its place.
  void Take(Slot from, const Incoming& incoming);
  // Instead of a push: `from` asks that the round ends in an error. It opens the round if there is
  // none, and is answered like a push. Of a round that `from` has pushed its contribution stays:
  // if all others come, too, before the error may be decided, there is a sum. Errors as Place.
  Status TakeAbort(Slot from, const wire::DataHeader& header, const std::string& why, Time now);

 private:
  Status CheckHeader(const wire::DataHeader& header) const;
  Status CheckPush(const wire::DataHeader& header, size_t payload_bytes) const;
  Status CheckRound(const Round& round, const ProcessSet& set, Slot from,
                    const wire::DataHeader& header) const;
  bool IsInVain(const wire::PieceRef& ref) const;
  Status CheckRepeat(const Piece& piece, const wire::DataHeader& header) const;
  Status NeedRound(Piece& piece, ProcessSet& set, Slot from, const wire::DataHeader& header,
                   Time now);
  Status PlaceInRound(Piece& piece, ProcessSet& set, Slot from, Incoming& incoming, Time now);
  Status NoMemory(Slot from, size_t bytes) const;
  void TakeContribution(Slot from, const Incoming& incoming);
  void AnswerAgain(Slot to, const wire::DataHeader& header, size_t payload_bytes);

  const Parts parts_;
};

}  // namespace byteps::protocol
