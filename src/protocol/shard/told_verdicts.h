// Verdicts that members tell, because a piece moved here or a connection broke. The shard adopts a
// verdict that it has not decided itself, and answers the members that wait for it.
#pragma once

#include <cstddef>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/shard/answers.h"
#include "src/protocol/shard/intake.h"
#include "src/protocol/shard/rounds.h"
#include "src/protocol/shard/state/shard_rules.h"
#include "src/protocol/shard/state/told_verdict.h"

namespace byteps::protocol {

// No state of its own. One thread at a time.
class ToldVerdicts {
 public:
  // The objects that this class works with. All of them must outlive this object.
  struct Parts {
    BufferPool& pool;
    Arithmetic& arithmetic;
    const ShardRules& rules;
    const ShardView& view;
    Members& members;
    PieceTable& pieces;
    Answers& answers;
    Rounds& rounds;
  };
  ToldVerdicts(const Parts& parts, uint32_t piece_bytes_max)
      : parts_(parts), piece_bytes_max_(piece_bytes_max) {}

  // Fills in where the payload goes. kProtocol: a correct worker of this view never sends this.
  // REQUIRES: header and size of `incoming` are filled in, the sender is a member, and the header's
  // home is a shard.
  Status Place(Slot from, Incoming& incoming);
  // Takes a verdict whose payload is in its place.
  void Take(Slot from, const Incoming& incoming);

  // Notes that `from` holds the verdict of this round, and that all members do. REQUIRES: this
  // shard owns the piece since `since`.
  void TakeHave(Slot from, const wire::HeldPiece& held, uint64_t since);

 private:
  void Adopt(Piece& piece, const ToldVerdict& told);
  void SetVerdict(Piece& piece, const ToldVerdict& told);

  const Parts parts_;
  const uint32_t piece_bytes_max_;
};

}  // namespace byteps::protocol
