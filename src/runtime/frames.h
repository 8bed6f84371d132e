// Makes frames from messages.
#pragma once

#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/transport/transport.h"
#include "src/wire/control.h"
#include "src/wire/frame.h"

namespace byteps::runtime {

// The urgency of control traffic, which overtakes data.
inline constexpr int64_t kControlUrgency = INT64_MAX;
// The urgency of a frame that overtakes nothing.
inline constexpr int64_t kLastUrgency = INT64_MIN;

// Returns a frame whose payload is a copy of `bytes`, in a buffer of `pool`.
transport::OutFrame BytesFrame(BufferPool& pool, wire::FrameKind kind, ConstByteSpan bytes);

transport::OutFrame ControlFrame(BufferPool& pool, const wire::Message& message);

// Borrows the payload as `frame` does. Verdicts are as urgent as control traffic, because they must
// arrive before the pushes that follow them.
transport::OutFrame FrameOf(wire::DataFrame frame);
// The payload is a copy in a buffer of `pool`. A process set without a bitmap takes the set back,
// so its frame leaves after all waiting frames.
transport::OutFrame FrameOf(BufferPool& pool, const wire::Frame& frame);

// Receives frames between a worker and a shard, one at a time, but no pushes, answers and verdicts.
class FrameIntake {
 public:
  explicit FrameIntake(wire::Reader reader) : reader_(reader) {}

  // Takes a header, and returns the place of the payload. kProtocol: see DecodeFrameHeader.
  Result<ByteSpan> Begin(wire::FrameKind kind, ConstByteSpan header, size_t payload_bytes);
  // Returns the frame, because its payload is complete.
  Result<wire::Frame> End();

 private:
  const wire::Reader reader_;
  wire::Frame frame_;
  std::vector<std::byte> payload_;
};

}  // namespace byteps::runtime
