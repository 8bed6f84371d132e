// Frames made from messages.
#pragma once

#include "src/base/buffer_pool.h"
#include "src/transport/transport.h"
#include "src/wire/control.h"
#include "src/wire/data.h"
#include "src/wire/frame_kind.h"

namespace byteps::runtime {

// Control traffic overtakes data.
inline constexpr int64_t kControlUrgency = INT64_MAX;

// A frame whose payload is a copy of `bytes`, in a buffer of `pool`.
transport::OutFrame BytesFrame(BufferPool& pool, wire::FrameKind kind, ConstByteSpan bytes);

transport::OutFrame ControlFrame(BufferPool& pool, const wire::Message& message);

// A push or an answer; `payload` is borrowed, `keep` shares its buffer if it has one.
transport::OutFrame DataFrame(wire::FrameKind kind, const wire::DataHeader& header,
                              ConstByteSpan payload, BufferRef keep);

transport::OutFrame AckFrame(uint64_t count);

}  // namespace byteps::runtime
