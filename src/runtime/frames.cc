#include "src/runtime/frames.h"

#include <span>
#include <utility>

#include "src/base/text.h"

namespace byteps::runtime {
namespace {

void SetNumber(transport::OutFrame& frame, uint64_t number) {
  frame.header_bytes = wire::kNumberHeaderBytes;
  wire::EncodeNumber(number, frame.header);
}

}  // namespace

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
  frame.header_bytes = static_cast<uint32_t>(wire::EncodeDataHeader(header, frame.header));
  frame.payload = payload;
  frame.keep = std::move(keep);
  frame.urgency = kind == wire::FrameKind::kVerdict ? kControlUrgency : header.priority;
  return frame;
}

transport::OutFrame NumberFrame(wire::FrameKind kind, uint64_t number) {
  transport::OutFrame frame;
  frame.kind = static_cast<uint8_t>(kind);
  SetNumber(frame, number);
  frame.urgency = kControlUrgency;
  return frame;
}

transport::OutFrame ProgressFrame(wire::FrameKind kind, const wire::Progress& progress) {
  transport::OutFrame frame;
  frame.kind = static_cast<uint8_t>(kind);
  frame.header_bytes = wire::kProgressHeaderBytes;
  wire::EncodeProgress(progress, frame.header);
  frame.urgency = kControlUrgency;
  return frame;
}

transport::OutFrame ProcessSetFrame(BufferPool& pool, const wire::Progress& number,
                                    ConstByteSpan bitmap) {
  transport::OutFrame frame = BytesFrame(pool, wire::FrameKind::kProcessSet, bitmap);
  if (bitmap.empty()) frame.urgency = kLastUrgency;
  frame.header_bytes = wire::kProgressHeaderBytes;
  wire::EncodeProgress(number, frame.header);
  return frame;
}

transport::OutFrame JoinedFrame(BufferPool& pool, const wire::Progress& number,
                                ConstByteSpan bitmap) {
  transport::OutFrame frame = BytesFrame(pool, wire::FrameKind::kJoined, bitmap);
  frame.header_bytes = wire::kProgressHeaderBytes;
  wire::EncodeProgress(number, frame.header);
  return frame;
}

transport::OutFrame WantFrame(BufferPool& pool, const std::vector<wire::PieceRef>& pieces) {
  std::vector<std::byte> bytes;
  wire::EncodePieceRefs(pieces, bytes);
  return BytesFrame(pool, wire::FrameKind::kWant, bytes);
}

transport::OutFrame HaveFrame(BufferPool& pool, uint64_t epoch,
                              const std::vector<wire::HeldPiece>& pieces) {
  std::vector<std::byte> bytes;
  wire::EncodeHeldPieces(pieces, bytes);
  transport::OutFrame frame = BytesFrame(pool, wire::FrameKind::kHave, bytes);
  SetNumber(frame, epoch);
  return frame;
}

transport::OutFrame AbortFrame(BufferPool& pool, wire::DataHeader push, const std::string& why) {
  auto text = std::as_bytes(std::span(CutText(why, wire::kAbortTextMax)));
  transport::OutFrame frame = BytesFrame(pool, wire::FrameKind::kAbort, text);
  push.encoded_bytes = 0;
  frame.header_bytes = static_cast<uint32_t>(wire::EncodeDataHeader(push, frame.header));
  return frame;
}

}  // namespace byteps::runtime
