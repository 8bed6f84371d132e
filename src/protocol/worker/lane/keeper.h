// Keeps verdicts that others may lack, when the memory that they lie in goes back to the user.
// Tells these verdicts to the shard that owns the piece now. One thread at a time.
#pragma once

#include "src/protocol/worker/lane/lane_context.h"

namespace byteps::protocol {

class Keeper {
 public:
  explicit Keeper(LaneContext& lane) : lane_(lane) {}

  // Copies the held verdict of a piece of an open exchange out of the user's memory. Does nothing
  // if the verdict has no bytes or has been copied.
  void Keep(LanePiece& piece);
  // Copies the held verdicts of all pieces that are done in the exchange and not stable.
  void KeepAll(const Exchange& exchange, LaneTensor& tensor);
  // Tells the piece's verdict to the owner. REQUIRES: the verdict is kept, or lies in the memory of
  // the tensor's exchange.
  void Tell(LaneTensor& tensor, uint32_t number);

  // Returns whether the verdict of such a piece is empty on this rank: the rank wants no bytes of
  // the piece, and pushes less than the whole piece.
  static bool IsEmpty(const TensorFacts& tensor, const Spans& spans);

 private:
  LaneContext& lane_;
};

}  // namespace byteps::protocol
