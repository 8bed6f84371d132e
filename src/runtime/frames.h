// Makes frames from messages.
#pragma once

#include <string>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/transport/transport.h"
#include "src/wire/control.h"
#include "src/wire/data.h"
#include "src/wire/frame_kind.h"

namespace byteps::runtime {

// The urgency of control traffic, which overtakes data.
inline constexpr int64_t kControlUrgency = INT64_MAX;
// The urgency of a frame that overtakes nothing.
inline constexpr int64_t kLastUrgency = INT64_MIN;

// Returns a frame whose payload is a copy of `bytes`, in a buffer of `pool`.
transport::OutFrame BytesFrame(BufferPool& pool, wire::FrameKind kind, ConstByteSpan bytes);

transport::OutFrame ControlFrame(BufferPool& pool, const wire::Message& message);

// Makes a push, an answer or a verdict. Borrows `payload`; `keep` shares the payload's buffer if
// the payload has one. Verdicts are as urgent as control traffic, because they must arrive before
// the pushes that follow them.
transport::OutFrame DataFrame(wire::FrameKind kind, const wire::DataHeader& header,
                              ConstByteSpan payload, BufferRef keep);

// Makes a resync frame.
transport::OutFrame NumberFrame(wire::FrameKind kind, uint64_t number);

transport::OutFrame WantFrame(BufferPool& pool, const std::vector<wire::PieceRef>& pieces);

// Makes an ack, a stable or a joined frame.
transport::OutFrame ProgressFrame(wire::FrameKind kind, const wire::Progress& progress);
// Makes the frame of a process set. A frame without a bitmap takes the set back, so it leaves after
// all waiting frames.
transport::OutFrame ProcessSetFrame(BufferPool& pool, const wire::Progress& number,
                                    ConstByteSpan bitmap);
transport::OutFrame JoinedFrame(BufferPool& pool, const wire::Progress& number,
                                ConstByteSpan bitmap);
// REQUIRES: pieces.size() <= wire::kWantCountMax.
transport::OutFrame HaveFrame(BufferPool& pool, uint64_t epoch,
                              const std::vector<wire::HeldPiece>& pieces);

// Makes an abort frame. `push`: the header of the push in whose place the abort stands.
transport::OutFrame AbortFrame(BufferPool& pool, wire::DataHeader push, const std::string& why);

}  // namespace byteps::runtime
