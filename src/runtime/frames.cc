#include "src/runtime/frames.h"

#include <algorithm>

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

transport::OutFrame DataFrame(wire::FrameKind kind, const wire::DataHeader& header,
                              ConstByteSpan payload, BufferRef keep) {
  transport::OutFrame frame;
  frame.kind = static_cast<uint8_t>(kind);
  frame.header_bytes =
      static_cast<uint32_t>(wire::EncodeDataHeader(header, payload.size(), frame.header));
  frame.payload = payload;
  frame.keep = std::move(keep);
  frame.urgency = header.priority;
  return frame;
}

transport::OutFrame AckFrame(uint64_t count) {
  transport::OutFrame frame;
  frame.kind = static_cast<uint8_t>(wire::FrameKind::kAck);
  frame.header_bytes = wire::kNumberHeaderBytes;
  wire::EncodeNumber(count, frame.header);
  frame.urgency = kControlUrgency;
  return frame;
}

}  // namespace byteps::runtime
