// Functions over the data of a lane, for verdicts that others may lack. They keep such a verdict
// when the memory that it lies in goes back to the user, and tell it to the shard that owns the
// piece now.
#pragma once

#include <cstdint>

#include "src/protocol/worker/lane/lane_context.h"

namespace byteps::protocol {

// Copies the held verdict of a piece of an open exchange out of the user's memory. Does nothing if
// the verdict has no bytes or has been copied.
void KeepVerdict(LaneContext& lane, LanePiece& piece);
// Copies the held verdicts of all pieces that are done in the exchange and not stable.
void KeepVerdicts(LaneContext& lane, const Exchange& exchange, LaneTensor& tensor);
// Tells the piece's verdict to the owner. REQUIRES: the verdict is kept, or lies in the memory of
// the tensor's exchange.
void TellVerdict(LaneContext& lane, LaneTensor& tensor, uint32_t number);

// Returns whether the verdict of such a piece is empty on this rank: the rank wants no bytes of the
// piece, and pushes less than the whole piece.
bool IsVerdictEmpty(const TensorFacts& tensor, const Spans& spans);

}  // namespace byteps::protocol
