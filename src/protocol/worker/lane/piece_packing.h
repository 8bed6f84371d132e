// Turns a lane's piece into a MovedPiece that another lane can take over, and back. Bytes in
// buffers are copied, because a buffer belongs to the pool of one lane. Nothing changes except the
// pool.
#pragma once

#include <cstdint>

#include "src/base/buffer_pool.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/worker/exchange/moved_piece.h"
#include "src/protocol/worker/lane/pieces.h"

namespace byteps::protocol {

// Takes everything out of `piece`, which is kAway after this. The caller fills in the exchange, and
// whether the piece has set out.
MovedPiece PackPiece(const TensorFacts& tensor, uint32_t number, LanePiece& piece);

// Returns the same piece in its new lane. It is kDone and has no owner until the caller changes
// that.
LanePiece UnpackPiece(const MovedPiece& moved, BufferPool& pool, Arithmetic& arithmetic);

}  // namespace byteps::protocol
