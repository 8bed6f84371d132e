// Headers of the data path: fixed, little-endian, no allocation. docs/wire-format.md is the
// specification; data_test.cc holds golden bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/wire/frame_kind.h"
#include "src/wire/round.h"

namespace byteps::wire {

// Names one piece in one round (round.h).
struct PieceRef {
  TensorId tensor = 0;
  uint32_t piece = 0;
  uint64_t round = 0;

  friend bool operator==(const PieceRef&, const PieceRef&) = default;
};

// The header of a push, an answer, a verdict or an abort. It does not have the sender's slot and
// incarnation, because the handshake bound them to the connection.
//
// The payload is the receipt, if there is one, and behind it `encoded_bytes` bytes of the
// contribution or the verdict. Without a codec these are a span of the piece; with a codec they are
// its encoded form.
struct DataHeader {
  PieceRef ref;
  uint64_t epoch = 0;
  // Answer: its number on this connection, from 1. Other frames: the sender has received all
  // answers up to this number on this connection.
  uint64_t count = 0;
  uint32_t generation = 0;
  int32_t priority = 0;
  // Push and abort: the process set whose round this is; 0: all ranks. Other frames: 0.
  uint32_t process_set = 0;
  // Answer and verdict: the bytes of the receipt, a bitmap of slots, with which the payload begins.
  // 0: the verdict has the contributions of exactly the workers of `epoch` that are in the tensor's
  // process set. Other frames: 0.
  uint32_t receipt = 0;
  // Answer: the number of the latest answers on this connection, this one included, that the sender
  // does not know to be with every member. Other frames: 0.
  uint32_t unstable = 0;
  // The shard to which the piece was dealt; with the view it gives the piece's present owner.
  ShardId home = 0;
  uint32_t piece_bytes = 0;    // of the piece without a codec
  uint32_t encoded_bytes = 0;  // of the payload behind the receipt
  Combine combine = Combine::kSum;
  DataType dtype = DataType::kFloat32;
  // Answer and verdict: not kOk if the round ended in an error; the payload is then an ErrorRow.
  // Abort: the error that its sender asks for. Push: kOk.
  StatusCode status = StatusCode::kOk;
  // The codec of the contribution or the verdict; 0: none. With a codec the contribution is always
  // the whole piece, and its sender wants the whole verdict or nothing.
  uint8_t codec = 0;
  // The offset of the payload in the piece, and the span of the verdict that the sender wants. They
  // are absent if the payload begins at the piece's beginning and the sender wants the whole
  // verdict; the length of the header tells whether they are absent.
  uint32_t offset = 0;
  uint32_t want_offset = 0;
  uint32_t want_bytes = 0;

  friend bool operator==(const DataHeader&, const DataHeader&) = default;
};

inline constexpr size_t kDataHeaderBytes = 68;
inline constexpr size_t kDataHeaderRangeBytes = 12;
inline constexpr size_t kDataHeaderBytesMax = kDataHeaderBytes + kDataHeaderRangeBytes;
// The most bytes that a codec may add to a piece that it cannot make smaller.
inline constexpr uint32_t kCodecExtraBytesMax = 1024;
// The most bytes of a bitmap of slots or ranks.
inline constexpr size_t kProcessSetBytesMax = (size_t{1} << 16) / 8;
// The payload of an abort is the reason. The sender cuts a longer one.
inline constexpr size_t kAbortTextMax = 1024;

// Writes the header and returns its length: kDataHeaderBytes, or with the range
// kDataHeaderBytesMax. REQUIRES: out.size() >= kDataHeaderBytesMax.
size_t EncodeDataHeader(const DataHeader& header, ByteSpan out);

// Reads a header. kProtocol: the length is wrong, an enumerator is unknown, a span leaves the
// piece, the payload does not match the header, or a field does not belong to a frame of this kind.
// Does not check whether the codec's id is known. REQUIRES: kind is kPush, kAnswer, kVerdict or
// kAbort.
Result<DataHeader> DecodeDataHeader(FrameKind kind, ConstByteSpan bytes, size_t payload_bytes);

}  // namespace byteps::wire
