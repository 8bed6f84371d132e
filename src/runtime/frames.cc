#include "src/runtime/frames.h"

#include <algorithm>
#include <utility>

namespace byteps::runtime {
transport::OutFrame BytesFrame(BufferPool& pool, wire::FrameKind kind, ConstByteSpan bytes) {
  transport::OutFrame frame;
  frame.kind = static_cast<uint8_t>(kind);
  frame.urgency = kControlUrgency;
  frame.keep = pool.Take(bytes.size());
  std::copy(bytes.begin(), bytes.end(), frame.keep.data());
  frame.payload = ConstByteSpan(frame.keep.data(), bytes.size());
  return frame;
}

transport::OutFrame ControlFrame(BufferPool& pool, const wire::Message& message) {
  return BytesFrame(pool, wire::FrameKind::kControl, wire::EncodeControl(message));
}

transport::OutFrame FrameOf(wire::DataFrame data) {
  transport::OutFrame frame;
  frame.kind = static_cast<uint8_t>(data.kind);
  frame.header_bytes = static_cast<uint32_t>(wire::EncodeDataHeader(data.header, frame.header));
  frame.payload = data.payload;
  frame.keep = std::move(data.keep);
  frame.urgency = data.kind == wire::FrameKind::kVerdict ? kControlUrgency : data.header.priority;
  return frame;
}

transport::OutFrame FrameOf(BufferPool& pool, const wire::Frame& small) {
  transport::OutFrame frame;
  frame.kind = static_cast<uint8_t>(wire::KindOf(small));
  frame.header_bytes = static_cast<uint32_t>(wire::EncodeFrameHeader(small, frame.header));
  frame.urgency = kControlUrgency;
  size_t bytes = wire::BytesOf(small);
  bool removed = std::holds_alternative<wire::ProcessSet>(small) && bytes == 0;
  if (removed) frame.urgency = kLastUrgency;
  if (bytes == 0) return frame;
  frame.keep = pool.Take(bytes);
  ByteSpan payload(frame.keep.data(), bytes);
  wire::EncodeFramePayload(small, payload);
  frame.payload = payload;
  return frame;
}

Result<ByteSpan> FrameIntake::Begin(wire::FrameKind kind, ConstByteSpan header,
                                    size_t payload_bytes) {
  Result<wire::Frame> begun = wire::DecodeFrameHeader(reader_, kind, header, payload_bytes);
  if (!begun.ok()) return begun.status();
  frame_ = std::move(begun).value();
  payload_.resize(payload_bytes);
  return ByteSpan(payload_);
}

Result<wire::Frame> FrameIntake::End() {
  Status sound = wire::DecodeFramePayload(payload_, frame_);
  if (!sound.ok()) return sound;
  return std::move(frame_);
}

}  // namespace byteps::runtime
