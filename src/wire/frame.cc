#include "src/wire/frame.h"

#include <algorithm>
#include <span>
#include <utility>

#include "src/base/text.h"
#include "src/wire/bytes.h"

namespace byteps::wire {
namespace {

template <typename... Calls>
struct Overloaded : Calls... {
  using Calls::operator()...;
};

ConstByteSpan TextOf(const Abort& abort) {
  return std::as_bytes(std::span(CutText(abort.why, kAbortTextMax)));
}

// ---- The numbers of a header: `count` is there if the kind has one.

size_t EncodeNumbers(uint64_t count, uint64_t epoch, ByteSpan out) {
  PutLittle(out.data(), count);
  PutLittle(out.data() + 8, epoch);
  return kNumberHeaderBytes;
}

size_t EncodeEpoch(uint64_t epoch, ByteSpan out) {
  PutLittle(out.data(), epoch);
  return kEpochHeaderBytes;
}

// A frame whose header is a number and the epoch.
template <typename Told>
Result<Frame> DecodeNumbers(ConstByteSpan header, uint64_t Told::* number) {
  if (header.size() != kNumberHeaderBytes) {
    return Status(StatusCode::kProtocol, "malformed ack: wrong length");
  }
  Told told;
  told.*number = GetLittle<uint64_t>(header.data());
  told.epoch = GetLittle<uint64_t>(header.data() + 8);
  return Frame(std::move(told));
}

// A frame whose header is the epoch.
template <typename Told>
Result<Frame> DecodeEpoch(ConstByteSpan header) {
  if (header.size() != kEpochHeaderBytes) {
    return Status(StatusCode::kProtocol, "malformed number: wrong length");
  }
  Told told;
  told.epoch = GetLittle<uint64_t>(header.data());
  return Frame(std::move(told));
}

Result<Frame> DecodeAbort(ConstByteSpan header, size_t payload_bytes) {
  Result<DataHeader> push = DecodeDataHeader(FrameKind::kAbort, header, payload_bytes);
  if (!push.ok()) return push.status();
  return Frame(Abort{push.value(), ""});
}

// ---- Lists of pieces.

void EncodeRef(const PieceRef& ref, std::byte* at) {
  PutLittle(at, ref.tensor);
  PutLittle(at + 4, ref.piece);
  PutLittle(at + 8, ref.round);
}

PieceRef DecodeRef(const std::byte* at) {
  return {GetLittle<uint32_t>(at), GetLittle<uint32_t>(at + 4), GetLittle<uint64_t>(at + 8)};
}

Status CheckWant(size_t bytes) {
  bool sound = bytes % kPieceRefBytes == 0 && bytes <= kWantCountMax * kPieceRefBytes;
  if (sound) return Status::Ok();
  return {StatusCode::kProtocol,
          "malformed list of pieces: " + std::to_string(bytes) + " bytes of references"};
}

Status DecodePieces(ConstByteSpan payload, Want& want) {
  for (size_t at = 0; at < payload.size(); at += kPieceRefBytes) {
    want.pieces.push_back(DecodeRef(payload.data() + at));
  }
  return Status::Ok();
}

Status DecodePieces(ConstByteSpan payload, Have& have) {
  if (payload.size() % kHeldPieceBytes != 0) {
    return {StatusCode::kProtocol,
            "malformed list of held pieces: " + std::to_string(payload.size()) + " bytes"};
  }
  for (size_t at = 0; at < payload.size(); at += kHeldPieceBytes) {
    const std::byte* from = payload.data() + at;
    have.pieces.push_back({DecodeRef(from), GetLittle<uint32_t>(from + kPieceRefBytes)});
  }
  return Status::Ok();
}

Status Misplaced(FrameKind kind, const char* reader) {
  return {StatusCode::kProtocol,
          "frame " + std::to_string(static_cast<uint8_t>(kind)) + " for a " + reader};
}

Result<Frame> DecodeForShard(FrameKind kind, ConstByteSpan header, size_t payload_bytes) {
  bool empty = payload_bytes == 0;
  bool bitmap = payload_bytes <= kProcessSetBytesMax;
  bool list = payload_bytes <= kWantCountMax * kHeldPieceBytes;
  if (kind == FrameKind::kAbort) return DecodeAbort(header, payload_bytes);
  if (kind == FrameKind::kHave && list) return DecodeEpoch<Have>(header);
  if (kind == FrameKind::kResync && empty) return DecodeEpoch<Resync>(header);
  if (kind == FrameKind::kAck && empty) return DecodeNumbers(header, &Ack::count);
  if (kind == FrameKind::kProcessSet && bitmap) return DecodeNumbers(header, &ProcessSet::number);
  if (kind == FrameKind::kJoined && bitmap) return DecodeNumbers(header, &Joined::number);
  return Misplaced(kind, "shard");
}

Result<Frame> DecodeForWorker(FrameKind kind, ConstByteSpan header, size_t payload_bytes) {
  if (kind == FrameKind::kWant) {
    Status sound = CheckWant(payload_bytes);
    return sound.ok() ? Result<Frame>(Want()) : Result<Frame>(sound);
  }
  bool stable = kind == FrameKind::kStable && payload_bytes == 0;
  return stable ? DecodeNumbers(header, &Stable::count) : Misplaced(kind, "worker");
}

}  // namespace

FrameKind KindOf(const Frame& frame) {
  return std::visit(Overloaded{[](const Abort&) { return FrameKind::kAbort; },
                               [](const Want&) { return FrameKind::kWant; },
                               [](const Have&) { return FrameKind::kHave; },
                               [](const Resync&) { return FrameKind::kResync; },
                               [](const Ack&) { return FrameKind::kAck; },
                               [](const Stable&) { return FrameKind::kStable; },
                               [](const ProcessSet&) { return FrameKind::kProcessSet; },
                               [](const Joined&) { return FrameKind::kJoined; }},
                    frame);
}

uint64_t EpochOf(const Frame& frame) {
  return std::visit(Overloaded{[](const Abort& abort) { return abort.push.epoch; },
                               [](const Want&) { return uint64_t{0}; },
                               [](const auto& other) { return other.epoch; }},
                    frame);
}

size_t BytesOf(const Frame& frame) {
  return std::visit(
      Overloaded{[](const Abort& abort) { return TextOf(abort).size(); },
                 [](const Want& want) { return want.pieces.size() * kPieceRefBytes; },
                 [](const Have& have) { return have.pieces.size() * kHeldPieceBytes; },
                 [](const ProcessSet& set) { return set.bitmap.size(); },
                 [](const Joined& joined) { return joined.bitmap.size(); },
                 [](const auto&) { return size_t{0}; }},
      frame);
}

size_t EncodeFrameHeader(const Frame& frame, ByteSpan out) {
  return std::visit(
      Overloaded{
          [&](const Abort& abort) {
            DataHeader header = abort.push;
            header.encoded_bytes = 0;
            return EncodeDataHeader(header, out);
          },
          [](const Want&) { return size_t{0}; },
          [&](const Have& have) { return EncodeEpoch(have.epoch, out); },
          [&](const Resync& resync) { return EncodeEpoch(resync.epoch, out); },
          [&](const Ack& ack) { return EncodeNumbers(ack.count, ack.epoch, out); },
          [&](const Stable& stable) { return EncodeNumbers(stable.count, stable.epoch, out); },
          [&](const auto& told) { return EncodeNumbers(told.number, told.epoch, out); }},
      frame);
}

void EncodeFramePayload(const Frame& frame, ByteSpan out) {
  std::byte* at = out.data();
  auto copy = [&](ConstByteSpan bytes) { std::copy(bytes.begin(), bytes.end(), out.begin()); };
  std::visit(Overloaded{[&](const Abort& abort) { copy(TextOf(abort)); },
                        [&](const Want& want) {
                          for (const PieceRef& ref : want.pieces) {
                            EncodeRef(ref, at);
                            at += kPieceRefBytes;
                          }
                        },
                        [&](const Have& have) {
                          for (const HeldPiece& piece : have.pieces) {
                            EncodeRef(piece.ref, at);
                            PutLittle(at + kPieceRefBytes, piece.home);
                            at += kHeldPieceBytes;
                          }
                        },
                        [&](const ProcessSet& set) { copy(set.bitmap); },
                        [&](const Joined& joined) { copy(joined.bitmap); }, [](const auto&) {}},
             frame);
}

Result<Frame> DecodeFrameHeader(Reader reader, FrameKind kind, ConstByteSpan header,
                                size_t payload_bytes) {
  return reader == Reader::kShard ? DecodeForShard(kind, header, payload_bytes)
                                  : DecodeForWorker(kind, header, payload_bytes);
}

Status DecodeFramePayload(ConstByteSpan payload, Frame& frame) {
  auto bitmap = [&](auto& told) {
    told.bitmap.assign(payload.begin(), payload.end());
    return Status::Ok();
  };
  return std::visit(Overloaded{[&](Abort& abort) {
                                 const auto* text = reinterpret_cast<const char*>(payload.data());
                                 abort.why.assign(text, payload.size());
                                 return Status::Ok();
                               },
                               [&](Want& want) { return DecodePieces(payload, want); },
                               [&](Have& have) { return DecodePieces(payload, have); },
                               [&](ProcessSet& set) { return bitmap(set); },
                               [&](Joined& joined) { return bitmap(joined); },
                               [](auto&) { return Status::Ok(); }},
                    frame);
}

}  // namespace byteps::wire
