// Drops pieces that are no longer this shard's, or that nobody needs any more, and looks at all
// others again when the members have changed.
#pragma once

#include <functional>
#include <vector>

#include "src/base/time.h"
#include "src/protocol/shard/answers.h"
#include "src/protocol/shard/rounds.h"
#include "src/protocol/shard/state/attendance.h"
#include "src/wire/control.h"

namespace byteps::protocol {

// No state of its own. One thread at a time.
class PieceReview {
 public:
  // What it works with; all of it outlives this.
  struct Parts {
    const ShardView& view;
    const Attendance& attendance;
    PieceTable& pieces;
    Answers& answers;
    VerdictDelivery& delivery;
    Rounds& rounds;
  };
  explicit PieceReview(const Parts& parts) : parts_(parts) {}

  // A view of the same generation has come after that of `old_epoch`. Pieces that went to others
  // are theirs, and what this shard knew of a piece before it went away and came back is worth
  // nothing: others have decided about it meanwhile. What is complete without those who went is
  // decided.
  void OnView(uint64_t old_epoch, Time now);
  // The ranks disagree in this use about the name of the tensors: its rounds are dropped, and late
  // pushes of them ignored. Verdicts of earlier rounds are kept until all members have them.
  void Retire(const std::vector<TensorId>& tensors, uint64_t use);
  // A member has said something: pieces of retired tensors are dropped if nobody needs them.
  void ReviewRetired();
  // All ranks have let go of these tensors.
  void OnForgotten(const std::vector<TensorId>& tensors);
  // Nobody knows the others any more.
  void OnStillKnown(const wire::StillKnown& known);

 private:
  void ReleaseVoid(Piece& piece);
  void DropTensors(const std::function<bool(TensorId)>& unwanted);

  const Parts parts_;
};

}  // namespace byteps::protocol
