// Decides about pushes: which pushes are right, where a payload goes, and what it becomes: a
// contribution to a round, a repeat that is answered from the verdict, or nothing.
#pragma once

#include <cstddef>
#include <string>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/protocol/shard/intake.h"
#include "src/protocol/shard/rounds.h"
#include "src/protocol/shard/state/attendance.h"
#include "src/protocol/shard/state/process_sets.h"
#include "src/protocol/shard/state/shard_rules.h"

namespace byteps::protocol {

// No state of its own. One thread at a time; steady state allocates nothing.
class Contributions {
 public:
  // The objects that this class works with. All of them must outlive this object.
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
  };
  explicit Contributions(const Parts& parts) : parts_(parts) {}

  // Fills in where the payload goes. kProtocol: a correct worker of this view never sends this.
  // kExhausted: twice too many rounds are open. REQUIRES: header and size of `incoming` are filled
  // in, the sender is a member, and the header's home is a shard.
  Status Place(Slot from, Incoming& incoming);
  // Takes a push whose payload is in its place.
  void Take(Slot from, const Incoming& incoming);
  // Takes the request of `from` that the round ends in an error; it comes instead of a push. The
  // request opens the round if there is none, and is answered like a push. If `from` has already
  // pushed the round, its contribution stays: if all other contributions come before the error may
  // be decided, the round ends in a sum. Errors: see Place.
  Status TakeAbort(Slot from, const wire::DataHeader& header, const std::string& why);

 private:
  Status CheckHeader(const wire::DataHeader& header) const;
  Status CheckPush(const wire::DataHeader& header, size_t payload_bytes) const;
  Status CheckRound(const Round& round, const ProcessSet& set, Slot from,
                    const wire::DataHeader& header) const;
  bool IsInVain(const wire::PieceRef& ref) const;
  Status CheckRepeat(const Piece& piece, const wire::DataHeader& header) const;
  Status NeedRound(Piece& piece, ProcessSet& set, Slot from, const wire::DataHeader& header);
  Status PlaceInRound(Piece& piece, ProcessSet& set, Slot from, Incoming& incoming);
  Status NoMemory(Slot from, size_t bytes) const;
  void TakeContribution(Slot from, const Incoming& incoming);
  void AnswerAgain(Slot to, const wire::DataHeader& header, size_t payload_bytes);

  const Parts parts_;
};

}  // namespace byteps::protocol
