// Fuzz target: any bytes as the header of a push, an answer, a verdict or an abort, as wants, as
// errors and as an ack. Accepted bytes keep their spans inside the piece and mean the same after
// they are written again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "src/wire/data.h"
#include "src/wire/error_row.h"

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

void FuzzRefs(ConstByteSpan bytes) {
  std::vector<PieceRef> refs;
  if (!DecodePieceRefs(bytes, refs).ok()) return;
  std::vector<std::byte> again;
  EncodePieceRefs(refs, again);
  Require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
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
  byteps::wire::FuzzRefs(bytes);
  byteps::wire::FuzzErrors(bytes, payload_bytes);
  (void)byteps::wire::DecodeNumber(bytes).ok();
  return 0;
}
