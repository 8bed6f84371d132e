// Frames made from messages.
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

// Control traffic overtakes data.
inline constexpr int64_t kControlUrgency = INT64_MAX;
// Overtakes nothing.
inline constexpr int64_t kLastUrgency = INT64_MIN;

// A frame whose payload is a copy of `bytes`, in a buffer of `pool`.
transport::OutFrame BytesFrame(BufferPool& pool, wire::FrameKind kind, ConstByteSpan bytes);

transport::OutFrame ControlFrame(BufferPool& pool, const wire::Message& message);

// A push, an answer or a verdict; `payload` is borrowed, `keep` shares its buffer if it has one.
// Verdicts are as urgent as control traffic: they must arrive before pushes that follow them.
transport::OutFrame DataFrame(wire::FrameKind kind, const wire::DataHeader& header,
                              ConstByteSpan payload, BufferRef keep);

// A resync frame.
transport::OutFrame NumberFrame(wire::FrameKind kind, uint64_t number);

transport::OutFrame WantFrame(BufferPool& pool, const std::vector<wire::PieceRef>& pieces);

// An ack, a stable or a joined frame.
transport::OutFrame ProgressFrame(wire::FrameKind kind, const wire::Progress& progress);
// Without a bitmap, which takes a process set back, it leaves after all that wait.
transport::OutFrame GroupFrame(BufferPool& pool, const wire::Progress& number,
                               ConstByteSpan bitmap);
transport::OutFrame JoinedFrame(BufferPool& pool, const wire::Progress& number,
                                ConstByteSpan bitmap);
// REQUIRES: pieces.size() <= wire::kWantCountMax.
transport::OutFrame HaveFrame(BufferPool& pool, uint64_t epoch,
                              const std::vector<wire::HeldPiece>& pieces);

// `push` is the header of the push that it stands for.
transport::OutFrame AbortFrame(BufferPool& pool, wire::DataHeader push, const std::string& why);

}  // namespace byteps::runtime
