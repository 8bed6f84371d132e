// Fuzz target: any bytes as the header of a push, an answer, a verdict or an abort, as any other
// frame between a worker and a shard, and as errors. Accepted bytes keep their spans inside the
// piece and mean the same after they are written again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "src/wire/data.h"
#include "src/wire/error_row.h"
#include "src/wire/frame.h"

namespace byteps::wire {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void FuzzHeader(FrameKind kind, ConstByteSpan bytes, size_t payload_bytes) {
  Result<DataHeader> header = DecodeDataHeader(kind, bytes, payload_bytes);
  if (!header.ok()) return Require(header.status().code() == StatusCode::kProtocol);
  Require(uint64_t{header->want_offset} + header->want_bytes <= header->piece_bytes);
  bool text = kind == FrameKind::kAbort;
  Require(text || uint64_t{header->receipt} + header->encoded_bytes == payload_bytes);
  bool span = header->codec == 0 && header->status == StatusCode::kOk;
  Require(!span || uint64_t{header->offset} + header->encoded_bytes <= header->piece_bytes);
  std::byte out[kDataHeaderBytesMax];
  size_t length = EncodeDataHeader(header.value(), out);
  Result<DataHeader> again = DecodeDataHeader(kind, ConstByteSpan(out, length), payload_bytes);
  Require(again.ok() && again.value() == header.value());
}

// The header is the first bytes, the payload all others.
void FuzzFrame(Reader reader, FrameKind kind, ConstByteSpan bytes, size_t header_bytes) {
  ConstByteSpan header = bytes.first(std::min(header_bytes, bytes.size()));
  ConstByteSpan payload = bytes.subspan(header.size());
  Result<Frame> frame = DecodeFrameHeader(reader, kind, header, payload.size());
  if (!frame.ok()) return Require(frame.status().code() == StatusCode::kProtocol);
  Status sound = DecodeFramePayload(payload, frame.value());
  if (!sound.ok()) return Require(sound.code() == StatusCode::kProtocol);
  Require(KindOf(frame.value()) == kind);
  std::byte out[kDataHeaderBytesMax];
  size_t length = EncodeFrameHeader(frame.value(), out);
  Require(kind == FrameKind::kWant || kind == FrameKind::kAbort ||
          std::equal(out, out + length, header.begin(), header.end()));
  std::vector<std::byte> again(BytesOf(frame.value()));
  EncodeFramePayload(frame.value(), again);
  Require(std::equal(again.begin(), again.end(), payload.begin(), payload.end()));
}

void FuzzErrors(ConstByteSpan bytes, uint64_t round) {
  Result<ErrorRow> row = ErrorRow::Decode(bytes, round);
  if (!row.ok()) return Require(row.status().code() == StatusCode::kProtocol);
  Require(row->Of(round) != nullptr);
  std::vector<std::byte> again = row->Encode(round);
  Require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
}

}  // namespace
}  // namespace byteps::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  size_t payload_bytes = data[0] | size_t{data[1]} << 8 | size_t{data[2]} << 24;
  auto bytes = std::as_bytes(std::span(data + 4, size - 4));
  using byteps::wire::FrameKind;
  for (FrameKind kind :
       {FrameKind::kPush, FrameKind::kAnswer, FrameKind::kVerdict, FrameKind::kAbort}) {
    byteps::wire::FuzzHeader(kind, bytes, payload_bytes);
  }
  for (uint8_t kind = 0; kind < 20; ++kind) {
    for (size_t header_bytes : {0, 8, 16, 68, 80}) {
      using byteps::wire::Reader;
      for (Reader reader : {Reader::kWorker, Reader::kShard}) {
        byteps::wire::FuzzFrame(reader, static_cast<FrameKind>(kind), bytes, header_bytes);
      }
    }
  }
  byteps::wire::FuzzErrors(bytes, payload_bytes);
  return 0;
}
