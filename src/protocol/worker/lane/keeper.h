// Verdicts that others may lack: kept when the memory they lie in goes back to the user, and told
// to whoever owns the piece now. One thread at a time.
#pragma once

#include "src/protocol/worker/lane/lane_context.h"

namespace byteps::protocol {

class Keeper {
 public:
  explicit Keeper(LaneContext& lane) : lane_(lane) {}

  // Copies the held verdict of a piece of an open exchange out of the user's memory. Does nothing
  // if the verdict has no bytes or has been copied.
  void Keep(LanePiece& piece);
  // The same of all pieces that are done in the exchange and not stable.
  void KeepAll(const Exchange& exchange, LaneTensor& tensor);
  // Tells the owner. The verdict is kept, or lies in the memory of the tensor's exchange.
  void Tell(LaneTensor& tensor, uint32_t number);

  // The verdict of such a piece is empty on this rank: it wants no bytes of the piece, and what it
  // pushes is not all of the piece.
  static bool IsEmpty(const TensorFacts& tensor, const Spans& spans);

 private:
  LaneContext& lane_;
};

}  // namespace byteps::protocol
