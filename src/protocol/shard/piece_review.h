// Drops pieces that do not belong to this shard any more, or that no member needs any more. Looks
// at all other pieces again when the members have changed.
#pragma once

#include <functional>
#include <vector>

#include "src/protocol/shard/answers.h"
#include "src/protocol/shard/rounds.h"
#include "src/protocol/shard/state/attendance.h"
#include "src/wire/control.h"

namespace byteps::protocol {

// No state of its own. One thread at a time.
class PieceReview {
 public:
  // The objects that this class works with. All of them must outlive this object.
  struct Parts {
    const ShardView& view;
    const Attendance& attendance;
    PieceTable& pieces;
    Answers& answers;
    Rounds& rounds;
  };
  explicit PieceReview(const Parts& parts) : parts_(parts) {}

  // Handles a view of the same generation that follows the view of `old_epoch`. Drops the pieces
  // that went to other shards. Also drops a piece that went away and came back, because other
  // shards have decided about it meanwhile. Decides each round that is complete without the members
  // that are gone.
  void OnView(uint64_t old_epoch);
  // Drops the rounds of this use of the tensors, because the ranks disagree in this use about their
  // name. Late pushes for these rounds are ignored. Verdicts of earlier rounds are kept until all
  // members have them.
  void Retire(const std::vector<TensorId>& tensors, uint64_t use);
  // Drops pieces of retired tensors that no member needs any more. Must be called after a member
  // has said something.
  void ReviewRetired();
  // Forgets these tensors, because all ranks have let go of them.
  void OnForgotten(const std::vector<TensorId>& tensors);
  // Drops the other tensors in the range of `known`, because no member knows them any more.
  void OnStillKnown(const wire::StillKnown& known);

 private:
  void ReleaseVoid(Piece& piece);
  void DropTensors(const std::function<bool(TensorId)>& unwanted);

  const Parts parts_;
};

}  // namespace byteps::protocol
