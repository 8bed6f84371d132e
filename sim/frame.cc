#include "sim/frame.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <variant>

#include "src/base/check.h"

namespace byteps::sim {
namespace {

constexpr uint32_t kPrefixBytes = 8;

// Returns the numbers of a frame in the fields of a data header that have the same meaning.
wire::DataHeader NumbersOf(const wire::Frame& what) {
  wire::DataHeader header;
  if (const auto* abort = std::get_if<wire::Abort>(&what)) {
    header = abort->push;
    header.encoded_bytes = 0;
  }
  header.epoch = wire::EpochOf(what);
  if (const auto* ack = std::get_if<wire::Ack>(&what)) header.count = ack->count;
  if (const auto* stable = std::get_if<wire::Stable>(&what)) header.count = stable->count;
  if (const auto* set = std::get_if<wire::ProcessSet>(&what)) header.count = set->number;
  if (const auto* joined = std::get_if<wire::Joined>(&what)) header.count = joined->number;
  return header;
}

uint32_t HeaderBytesOf(wire::FrameKind kind) {
  switch (kind) {
    case wire::FrameKind::kAbort: return wire::kDataHeaderBytes;
    case wire::FrameKind::kProcessSet: return wire::kNumberHeaderBytes;
    case wire::FrameKind::kWant:
    case wire::FrameKind::kHave: return 0;
    default: return wire::kEpochHeaderBytes;
  }
}

// Returns the frame without what its bytes say.
wire::Frame WithoutBytes(const Frame& frame) {
  const wire::DataHeader& header = frame.header;
  switch (frame.kind) {
    case wire::FrameKind::kAbort: return wire::Abort{HeaderOf(frame), ""};
    case wire::FrameKind::kWant: return wire::Want();
    case wire::FrameKind::kHave: return wire::Have{header.epoch, {}};
    case wire::FrameKind::kResync: return wire::Resync{header.epoch};
    case wire::FrameKind::kAck: return wire::Ack{header.count, header.epoch};
    case wire::FrameKind::kStable: return wire::Stable{header.count, header.epoch};
    case wire::FrameKind::kProcessSet: return wire::ProcessSet{header.count, header.epoch, {}};
    default: return wire::Joined{header.count, header.epoch, {}};
  }
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
    for (const wire::LifetimeNumber& lifetime : forgotten->lifetimes)
      text += " '" + lifetime.name + "'";
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
  frame.kind = wire::FrameKind::kControl;
  frame.bytes = wire::EncodeControl(message);
  frame.payload_bytes = static_cast<uint32_t>(frame.bytes.size());
  frame.wire_bytes = kPrefixBytes + frame.payload_bytes;
}

void Pack(Frame& frame, const wire::DataFrame& data, bool carry_bytes) {
  frame.kind = data.kind;
  frame.header = data.header;
  frame.payload_bytes = static_cast<uint32_t>(data.payload.size());
  frame.wire_bytes = kPrefixBytes + frame.payload_bytes;
  const bool whole = carry_bytes || data.header.status != StatusCode::kOk;
  ConstByteSpan carried = whole ? data.payload : data.payload.first(data.header.receipt);
  frame.bytes.assign(carried.begin(), carried.end());
  if (!carry_bytes) {
    frame.wire_bytes += wire::kDataHeaderBytes;
    return;
  }
  std::byte encoded[wire::kDataHeaderBytesMax];
  frame.wire_bytes += static_cast<uint32_t>(wire::EncodeDataHeader(data.header, encoded));
}

void Pack(Frame& frame, const wire::Frame& what) {
  frame.kind = wire::KindOf(what);
  frame.header = NumbersOf(what);
  frame.bytes.resize(wire::BytesOf(what));
  wire::EncodeFramePayload(what, frame.bytes);
  // A bitmap is as short here as its ranks allow.
  bool bitmap = frame.kind == wire::FrameKind::kProcessSet;
  while (bitmap && !frame.bytes.empty() && frame.bytes.back() == std::byte{0}) {
    frame.bytes.pop_back();
  }
  frame.payload_bytes = static_cast<uint32_t>(frame.bytes.size());
  frame.wire_bytes = kPrefixBytes + HeaderBytesOf(frame.kind) + frame.payload_bytes;
}

wire::Frame Unpack(const Frame& frame) {
  wire::Frame what = WithoutBytes(frame);
  Status sound = wire::DecodeFramePayload(frame.bytes, what);
  BYTEPS_CHECK(sound.ok());
  return what;
}

void MakeGreeting(Frame& frame, wire::FrameKind kind, const wire::DataHeader& header) {
  frame.kind = kind;
  frame.header = header;
  frame.bytes.clear();
  frame.payload_bytes = 0;
  frame.wire_bytes = kPrefixBytes + wire::kEpochHeaderBytes;
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
  return wire::DecodeDataHeader(frame.kind, encoded, frame.payload_bytes).value();
}

std::string Describe(const Frame& frame) {
  const wire::PieceRef& ref = frame.header.ref;
  std::string piece = "tensor " + std::to_string(ref.tensor) + " piece " +
                      std::to_string(ref.piece) + " round " + std::to_string(ref.round) + ", " +
                      std::to_string(frame.payload_bytes) + " bytes";
  switch (frame.kind) {
    case wire::FrameKind::kControl: return Describe(MessageOf(frame));
    case wire::FrameKind::kPush: return "push of " + piece;
    case wire::FrameKind::kAnswer:
      return "answer " + std::to_string(frame.header.count) + " for " + piece +
             (frame.header.status == StatusCode::kOk ? "" : ", an error");
    case wire::FrameKind::kWant:
      return "want of " + std::to_string(frame.payload_bytes / wire::kPieceRefBytes) + " pieces";
    case wire::FrameKind::kAck:
      return "acknowledgement up to " + std::to_string(frame.header.count);
    case wire::FrameKind::kStable: return "stable up to " + std::to_string(frame.header.count);
    case wire::FrameKind::kVerdict: return "verdict of " + piece;
    case wire::FrameKind::kHave:
      return "have of " + std::to_string(frame.payload_bytes / wire::kHeldPieceBytes) + " pieces";
    case wire::FrameKind::kResync: return "resync of epoch " + std::to_string(frame.header.epoch);
    case wire::FrameKind::kAbort: return "abort of " + piece;
    case wire::FrameKind::kProcessSet: return "process set " + std::to_string(frame.header.count);
    case wire::FrameKind::kJoined:
      return "joined for the time " + std::to_string(frame.header.count);
    case wire::FrameKind::kHello:
      return "hello of slot " + std::to_string(frame.header.home) + " in epoch " +
             std::to_string(frame.header.epoch);
    case wire::FrameKind::kWelcome:
      return frame.header.status == StatusCode::kOk ? "welcome" : "no welcome";
    default: return "";
  }
}

}  // namespace byteps::sim
