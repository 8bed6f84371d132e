#include "src/wire/data.h"

#include <string>

#include "src/wire/bytes.h"

namespace byteps::wire {
namespace {

// Byte positions of docs/wire-format.md.
constexpr size_t kTensorAt = 0;
constexpr size_t kPieceAt = 4;
constexpr size_t kRoundAt = 8;
constexpr size_t kEpochAt = 16;
constexpr size_t kCountAt = 24;
constexpr size_t kGenerationAt = 32;
constexpr size_t kPriorityAt = 36;
constexpr size_t kProcessSetAt = 40;
constexpr size_t kReceiptAt = 44;
constexpr size_t kUnstableAt = 48;
constexpr size_t kHomeAt = 52;
constexpr size_t kPieceBytesAt = 56;
constexpr size_t kEncodedBytesAt = 60;
constexpr size_t kCombineAt = 64;
constexpr size_t kDtypeAt = 65;
constexpr size_t kStatusAt = 66;
constexpr size_t kCodecAt = 67;
constexpr size_t kOffsetAt = 68;
constexpr size_t kWantOffsetAt = 72;
constexpr size_t kWantBytesAt = 76;

bool NeedsRange(const DataHeader& header) {
  return header.offset != 0 || header.want_offset != 0 || header.want_bytes != header.piece_bytes;
}

Status MalformedData(const std::string& what) {
  return {StatusCode::kProtocol, "malformed data header: " + what};
}

// Checks that the fields belong to a frame of this kind.
Status CheckKind(FrameKind kind, const DataHeader& header) {
  bool aborts = kind == FrameKind::kAbort;
  bool pushes = kind == FrameKind::kPush || aborts;
  if (pushes && header.receipt != 0) return MalformedData("a push has a receipt");
  if (pushes && aborts != (header.status != StatusCode::kOk)) {
    return MalformedData("a push has a status, or an abort has none");
  }
  if (!pushes && header.process_set != 0) return MalformedData("a verdict names a process set");
  if (kind != FrameKind::kAnswer && header.unstable != 0) {
    return MalformedData("only answers count what is unstable");
  }
  if (header.receipt > kProcessSetBytesMax) return MalformedData("the receipt is too long");
  return Status::Ok();
}

Status CheckPayload(FrameKind kind, const DataHeader& header, size_t payload_bytes) {
  if (kind == FrameKind::kAbort) {
    bool text_only = header.encoded_bytes == 0 && payload_bytes <= kAbortTextMax;
    return text_only ? Status::Ok() : MalformedData("an abort has nothing but a text");
  }
  if (uint64_t{header.receipt} + header.encoded_bytes == payload_bytes) return Status::Ok();
  return MalformedData("it says " + std::to_string(header.receipt) + " and " +
                       std::to_string(header.encoded_bytes) + " bytes of a payload of " +
                       std::to_string(payload_bytes));
}

Status CheckRange(FrameKind kind, const DataHeader& header) {
  if (uint64_t{header.want_offset} + header.want_bytes > header.piece_bytes) {
    return MalformedData("the wanted span leaves the piece");
  }
  if (header.codec != 0) {
    bool all = header.want_offset == 0 && header.want_bytes == header.piece_bytes;
    if (header.offset != 0 || (!all && header.want_bytes != 0)) {
      return MalformedData("with a codec a piece is pushed and wanted whole");
    }
    bool error = header.status != StatusCode::kOk && kind != FrameKind::kAbort;
    if (error) return MalformedData("errors have no codec");
    bool fits = header.encoded_bytes <= uint64_t{header.piece_bytes} + kCodecExtraBytesMax;
    return fits ? Status::Ok() : MalformedData("the codec has made the piece too large");
  }
  if (header.status != StatusCode::kOk) return Status::Ok();  // a row of errors is no span
  if (uint64_t{header.offset} + header.encoded_bytes > header.piece_bytes) {
    return MalformedData("the payload leaves the piece");
  }
  return Status::Ok();
}

}  // namespace

size_t EncodeDataHeader(const DataHeader& header, ByteSpan out) {
  std::byte* at = out.data();
  PutLittle(at + kTensorAt, header.ref.tensor);
  PutLittle(at + kPieceAt, header.ref.piece);
  PutLittle(at + kRoundAt, header.ref.round);
  PutLittle(at + kEpochAt, header.epoch);
  PutLittle(at + kCountAt, header.count);
  PutLittle(at + kGenerationAt, header.generation);
  PutLittle(at + kPriorityAt, static_cast<uint32_t>(header.priority));
  PutLittle(at + kProcessSetAt, header.process_set);
  PutLittle(at + kReceiptAt, header.receipt);
  PutLittle(at + kUnstableAt, header.unstable);
  PutLittle(at + kHomeAt, header.home);
  PutLittle(at + kPieceBytesAt, header.piece_bytes);
  PutLittle(at + kEncodedBytesAt, header.encoded_bytes);
  at[kCombineAt] = static_cast<std::byte>(header.combine);
  at[kDtypeAt] = static_cast<std::byte>(header.dtype);
  at[kStatusAt] = static_cast<std::byte>(header.status);
  at[kCodecAt] = static_cast<std::byte>(header.codec);
  if (!NeedsRange(header)) return kDataHeaderBytes;
  PutLittle(at + kOffsetAt, header.offset);
  PutLittle(at + kWantOffsetAt, header.want_offset);
  PutLittle(at + kWantBytesAt, header.want_bytes);
  return kDataHeaderBytesMax;
}

Result<DataHeader> DecodeDataHeader(FrameKind kind, ConstByteSpan bytes, size_t payload_bytes) {
  if (bytes.size() != kDataHeaderBytes && bytes.size() != kDataHeaderBytesMax) {
    return MalformedData("its length is " + std::to_string(bytes.size()));
  }
  const std::byte* at = bytes.data();
  auto combine = static_cast<uint8_t>(at[kCombineAt]);
  auto dtype = static_cast<uint8_t>(at[kDtypeAt]);
  auto status = static_cast<uint8_t>(at[kStatusAt]);
  if (combine >= kCombineCount) return MalformedData("unknown combination");
  if (dtype >= kDataTypeCount) return MalformedData("unknown dtype");
  if (status > static_cast<uint8_t>(kLastStatusCode)) return MalformedData("unknown status");
  DataHeader header;
  header.ref.tensor = GetLittle<uint32_t>(at + kTensorAt);
  header.ref.piece = GetLittle<uint32_t>(at + kPieceAt);
  header.ref.round = GetLittle<uint64_t>(at + kRoundAt);
  header.epoch = GetLittle<uint64_t>(at + kEpochAt);
  header.count = GetLittle<uint64_t>(at + kCountAt);
  header.generation = GetLittle<uint32_t>(at + kGenerationAt);
  header.priority = static_cast<int32_t>(GetLittle<uint32_t>(at + kPriorityAt));
  header.process_set = GetLittle<uint32_t>(at + kProcessSetAt);
  header.receipt = GetLittle<uint32_t>(at + kReceiptAt);
  header.unstable = GetLittle<uint32_t>(at + kUnstableAt);
  header.home = GetLittle<uint32_t>(at + kHomeAt);
  header.piece_bytes = GetLittle<uint32_t>(at + kPieceBytesAt);
  header.encoded_bytes = GetLittle<uint32_t>(at + kEncodedBytesAt);
  header.combine = static_cast<Combine>(combine);
  header.dtype = static_cast<DataType>(dtype);
  header.status = static_cast<StatusCode>(status);
  header.codec = static_cast<uint8_t>(at[kCodecAt]);
  header.want_bytes = header.piece_bytes;
  if (bytes.size() == kDataHeaderBytesMax) {
    header.offset = GetLittle<uint32_t>(at + kOffsetAt);
    header.want_offset = GetLittle<uint32_t>(at + kWantOffsetAt);
    header.want_bytes = GetLittle<uint32_t>(at + kWantBytesAt);
  }
  Status sound = CheckKind(kind, header);
  if (sound.ok()) sound = CheckPayload(kind, header, payload_bytes);
  if (sound.ok()) sound = CheckRange(kind, header);
  if (!sound.ok()) return sound;
  return header;
}

}  // namespace byteps::wire
