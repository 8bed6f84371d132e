// Verdicts that members tell, because a piece moved here or a connection broke: the shard adopts
// what it has not decided itself, and answers who waits for it.
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
  // What it works with; all of it outlives this.
  struct Parts {
    BufferPool& pool;
    Arithmetic& arithmetic;
    const ShardRules& rules;
    const ShardView& view;
    Members& members;
    PieceTable& pieces;
    Answers& answers;
    Rounds& rounds;
    VerdictDelivery& delivery;
  };
  ToldVerdicts(const Parts& parts, uint32_t piece_bytes_max)
      : parts_(parts), piece_bytes_max_(piece_bytes_max) {}

  // Writes down where the payload goes; header and size of `incoming` are filled in. kProtocol: no
  // correct worker of this view sends that. REQUIRES: the sender is a member, the header's home a
  // shard.
  Status Place(Slot from, Incoming& incoming);
  // The payload is in its place.
  void Take(Slot from, const Incoming& incoming);

  // `from` holds the verdict of this round, and all members do. Whoever brings it need not be
  // waited for. REQUIRES: the piece is owned since `since`.
  void TakeHave(Slot from, const wire::HeldPiece& held, uint64_t since);

 private:
  void Adopt(Piece& piece, const ToldVerdict& told);
  void SetVerdict(Piece& piece, const ToldVerdict& told);

  const Parts parts_;
  const uint32_t piece_bytes_max_;
};

}  // namespace byteps::protocol
