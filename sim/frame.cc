#include "sim/frame.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <variant>

namespace byteps::sim {
namespace {

constexpr uint32_t kPrefixBytes = 8;

// REQUIRES: a frame with a data header.
wire::FrameKind KindOf(FrameType type) {
  if (type == FrameType::kPush) return wire::FrameKind::kPush;
  if (type == FrameType::kAnswer) return wire::FrameKind::kAnswer;
  return type == FrameType::kVerdict ? wire::FrameKind::kVerdict : wire::FrameKind::kAbort;
}

const char* NameOf(const wire::Message& message) {
  static constexpr const char* kNames[] = {
      "join",    "refused", "waiting",     "propose", "promise",  "commit",
      "query",   "report",  "known",       "declare", "declared", "declare failed",
      "sync",    "go on",   "leave",       "alive",   "suspect",  "job over",
      "overdue", "unbegun", "still known", "rates",   "let go",   "forgotten"};
  static_assert(std::size(kNames) == std::variant_size_v<wire::Message::variant>);
  return kNames[message.index()];
}

std::string Describe(const wire::Message& message) {
  std::string text = NameOf(message);
  if (const auto* declare = std::get_if<wire::Declare>(&message)) {
    text += " '" + declare->name + "'";
  } else if (const auto* declared = std::get_if<wire::Declared>(&message)) {
    text += " '" + declared->name + "': tensor " + std::to_string(declared->tensor);
  } else if (const auto* let_go = std::get_if<wire::LetGo>(&message)) {
    for (TensorId tensor : let_go->tensors) text += " " + std::to_string(tensor);
  } else if (const auto* forgotten = std::get_if<wire::Forgotten>(&message)) {
    for (TensorId tensor : forgotten->tensors) text += " " + std::to_string(tensor);
    for (const wire::CourseNumber& course : forgotten->courses) text += " '" + course.name + "'";
  }
  return text;
}

}  // namespace

Frame& FramePool::Take() {
  if (free_.empty()) {
    auto first = static_cast<FrameId>(chunks_.size() * kChunk);
    chunks_.push_back(std::make_unique<Frame[]>(kChunk));
    for (FrameId i = 0; i < kChunk; ++i) {
      chunks_.back()[i].id = first + i;
      free_.push_back(first + kChunk - 1 - i);
    }
  }
  FrameId id = free_.back();
  free_.pop_back();
  return (*this)[id];
}

void MakeControl(Frame& frame, const wire::Message& message) {
  frame.type = FrameType::kControl;
  frame.bytes = wire::EncodeControl(message);
  frame.payload_bytes = static_cast<uint32_t>(frame.bytes.size());
  frame.wire_bytes = kPrefixBytes + frame.payload_bytes;
}

void MakeData(Frame& frame, FrameType type, const wire::DataHeader& header, ConstByteSpan payload,
              bool carry_bytes) {
  frame.type = type;
  frame.header = header;
  frame.payload_bytes = static_cast<uint32_t>(payload.size());
  frame.wire_bytes = kPrefixBytes + frame.payload_bytes;
  const bool whole = carry_bytes || header.status != StatusCode::kOk;
  ConstByteSpan carried = whole ? payload : payload.first(header.receipt);
  frame.bytes.assign(carried.begin(), carried.end());
  if (!carry_bytes) {
    frame.wire_bytes += wire::kDataHeaderBytes;
    return;
  }
  std::byte encoded[wire::kDataHeaderBytesMax];
  frame.wire_bytes += static_cast<uint32_t>(wire::EncodeDataHeader(header, encoded));
}

void MakeWant(Frame& frame, const std::vector<wire::PieceRef>& pieces) {
  frame.type = FrameType::kWant;
  frame.bytes.clear();
  wire::EncodePieceRefs(pieces, frame.bytes);
  frame.payload_bytes = static_cast<uint32_t>(frame.bytes.size());
  frame.wire_bytes = kPrefixBytes + frame.payload_bytes;
}

void MakeHave(Frame& frame, uint64_t epoch, const std::vector<wire::HeldPiece>& pieces) {
  frame.type = FrameType::kHave;
  frame.header.epoch = epoch;
  wire::EncodeHeldPieces(pieces, frame.bytes);
  frame.payload_bytes = static_cast<uint32_t>(frame.bytes.size());
  frame.wire_bytes = kPrefixBytes + frame.payload_bytes;
}

std::vector<wire::HeldPiece> HeldOf(const Frame& frame) {
  std::vector<wire::HeldPiece> pieces;
  if (!wire::DecodeHeldPieces(frame.bytes, pieces).ok()) pieces.clear();
  return pieces;
}

void MakeAbort(Frame& frame, const wire::DataHeader& push, const std::string& why) {
  frame.type = FrameType::kAbort;
  frame.header = push;
  frame.header.encoded_bytes = 0;
  auto text = std::as_bytes(std::span(why));
  frame.bytes.assign(text.begin(), text.end());
  frame.payload_bytes = static_cast<uint32_t>(frame.bytes.size());
  frame.wire_bytes = kPrefixBytes + wire::kDataHeaderBytes + frame.payload_bytes;
}

void MakeProcessSet(Frame& frame, const wire::Progress& number, const std::vector<Slot>& slots) {
  frame.type = FrameType::kProcessSet;
  frame.header.count = number.count;
  frame.header.epoch = number.epoch;
  frame.bytes.assign(slots.empty() ? 0 : slots.back() / 8 + 1, std::byte{0});
  for (Slot slot : slots) frame.bytes[slot / 8] |= std::byte{1} << (slot % 8);
  frame.payload_bytes = static_cast<uint32_t>(frame.bytes.size());
  frame.wire_bytes = kPrefixBytes + wire::kProgressHeaderBytes + frame.payload_bytes;
}

void MakeSmall(Frame& frame, FrameType type, const wire::DataHeader& header) {
  frame.type = type;
  frame.header = header;
  frame.bytes.clear();
  frame.payload_bytes = 0;
  frame.wire_bytes = kPrefixBytes + wire::kNumberHeaderBytes;
}

std::string TextOf(const Frame& frame) {
  return std::string(reinterpret_cast<const char*>(frame.bytes.data()), frame.bytes.size());
}

wire::Message MessageOf(const Frame& frame) { return wire::DecodeControl(frame.bytes).value(); }

void TakeFirstPart(const Frame& frame, ByteSpan place) {
  size_t half = std::min(place.size() / 2, frame.bytes.size());
  if (half > 0) std::memcpy(place.data(), frame.bytes.data(), half);
}

void TakeRest(const Frame& frame, ByteSpan place) {
  size_t end = std::min(place.size(), frame.bytes.size());
  size_t half = std::min(place.size() / 2, end);
  if (half < end) std::memcpy(place.data() + half, frame.bytes.data() + half, end - half);
}

wire::DataHeader HeaderOf(const Frame& frame) {
  std::byte bytes[wire::kDataHeaderBytesMax];
  ConstByteSpan encoded(bytes, wire::EncodeDataHeader(frame.header, bytes));
  return wire::DecodeDataHeader(KindOf(frame.type), encoded, frame.payload_bytes).value();
}

std::vector<wire::PieceRef> PiecesOf(const Frame& frame) {
  std::vector<wire::PieceRef> pieces;
  Status decoded = wire::DecodePieceRefs(frame.bytes, pieces);
  if (!decoded.ok()) pieces.clear();
  return pieces;
}

std::string Describe(const Frame& frame) {
  const wire::PieceRef& ref = frame.header.ref;
  std::string piece = "tensor " + std::to_string(ref.tensor) + " piece " +
                      std::to_string(ref.piece) + " round " + std::to_string(ref.round) + ", " +
                      std::to_string(frame.payload_bytes) + " bytes";
  switch (frame.type) {
    case FrameType::kControl: return Describe(MessageOf(frame));
    case FrameType::kPush: return "push of " + piece;
    case FrameType::kAnswer:
      return "answer " + std::to_string(frame.header.count) + " for " + piece +
             (frame.header.status == StatusCode::kOk ? "" : ", an error");
    case FrameType::kWant:
      return "want of " + std::to_string(frame.payload_bytes / wire::kPieceRefBytes) + " pieces";
    case FrameType::kAck: return "acknowledgement up to " + std::to_string(frame.header.count);
    case FrameType::kStable: return "stable up to " + std::to_string(frame.header.count);
    case FrameType::kVerdict: return "verdict of " + piece;
    case FrameType::kHave:
      return "have of " + std::to_string(frame.payload_bytes / wire::kHeldPieceBytes) + " pieces";
    case FrameType::kResync: return "resync of epoch " + std::to_string(frame.header.epoch);
    case FrameType::kAbort: return "abort of " + piece;
    case FrameType::kProcessSet: return "process set " + std::to_string(frame.header.count);
    case FrameType::kJoined: return "joined for the time " + std::to_string(frame.header.count);
    case FrameType::kHello:
      return "hello of slot " + std::to_string(frame.header.home) + " in epoch " +
             std::to_string(frame.header.epoch);
    case FrameType::kWelcome:
      return frame.header.status == StatusCode::kOk ? "welcome" : "no welcome";
  }
  return "";
}

}  // namespace byteps::sim
