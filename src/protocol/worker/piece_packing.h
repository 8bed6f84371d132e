// Turns what a lane has of a piece into what another lane can take over, and back. Bytes in buffers
// are copied: a buffer belongs to the pool of one lane. Pure but for the pool.
#pragma once

#include <cstdint>

#include "src/base/buffer_pool.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/worker/moved_piece.h"
#include "src/protocol/worker/pieces.h"

namespace byteps::protocol {

// All of a piece but its exchange and whether it has set out. Leaves a piece that is away.
MovedPiece PackPiece(const TensorFacts& tensor, uint32_t number, LanePiece& piece);

// The same piece where it arrives: done, as no exchange is going on there, and without an owner.
LanePiece UnpackPiece(const MovedPiece& moved, BufferPool& pool, Arithmetic& arithmetic);

}  // namespace byteps::protocol
