// Headers of the data path: fixed, little-endian, no allocation. docs/wire-format.md is the
// specification; data_test.cc holds golden bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/wire/frame_kind.h"
#include "src/wire/round.h"

namespace byteps::wire {

// One piece in one round (round.h), by name.
struct PieceRef {
  TensorId tensor = 0;
  uint32_t piece = 0;
  uint64_t round = 0;

  friend bool operator==(const PieceRef&, const PieceRef&) = default;
};

// Header of a push, an answer, a verdict or an abort. The sender's slot and incarnation are not in
// it: the handshake bound them to the connection.
//
// The payload is the receipt, if there is one, and behind it `encoded_bytes` bytes: the
// contribution or the verdict as it travels. Only without a codec are these a span of the piece.
struct DataHeader {
  PieceRef ref;
  uint64_t epoch = 0;
  // Answer: its number on this connection, from 1. Others: all answers up to this number have been
  // received on this connection.
  uint64_t count = 0;
  uint32_t generation = 0;
  int32_t priority = 0;
  // Push and abort: the process set whose round this is; 0: everybody. Others: 0.
  uint32_t process_set = 0;
  // Answer and verdict: 0 = it has the contributions of all workers of `epoch` that are in the
  // tensor's process set, and of nobody else; otherwise the payload's first `receipt` bytes are a
  // bitmap of slots. Others: 0.
  uint32_t receipt = 0;
  // Answer: how many of the latest answers on this connection, this one included, are not yet
  // known to be with every member. Others: 0.
  uint32_t unstable = 0;
  // The shard that the piece was dealt to; with the view it says who owns the piece now.
  ShardId home = 0;
  uint32_t piece_bytes = 0;    // of the piece as its users know it
  uint32_t encoded_bytes = 0;  // of the payload behind the receipt
  Combine combine = Combine::kSum;
  DataType dtype = DataType::kFloat32;
  // Answer and verdict: an error; the payload is an ErrorRow. Abort: what its sender asks for.
  // Push: kOk.
  StatusCode status = StatusCode::kOk;
  // How a contribution or a verdict is encoded; 0: it is not. With a codec it is always one of the
  // whole piece, and its sender wants the whole verdict or nothing of it.
  uint8_t codec = 0;
  // Where the payload begins in the piece, and which span of the verdict the sender wants. They
  // travel only when they say more than "from the beginning of the piece, and I want all of it";
  // the length of the header tells whether they do.
  uint32_t offset = 0;
  uint32_t want_offset = 0;
  uint32_t want_bytes = 0;

  friend bool operator==(const DataHeader&, const DataHeader&) = default;
};

inline constexpr size_t kDataHeaderBytes = 68;
inline constexpr size_t kDataHeaderRangeBytes = 12;
inline constexpr size_t kDataHeaderBytesMax = kDataHeaderBytes + kDataHeaderRangeBytes;
// What a codec may add to a piece that it cannot make smaller.
inline constexpr uint32_t kCodecExtraBytesMax = 1024;
// The payload of an abort is the reason. A longer one is cut.
inline constexpr size_t kAbortTextMax = 1024;

// Writes the header and returns its length: kDataHeaderBytes, or with the range
// kDataHeaderBytesMax. REQUIRES: out.size() >= kDataHeaderBytesMax.
size_t EncodeDataHeader(const DataHeader& header, ByteSpan out);

// kProtocol for a wrong length, an unknown enumerator, spans that leave the piece, a payload that
// is not what the header says, and whatever a frame of this kind does not have. What a codec's id
// stands for is not checked here.
// REQUIRES: kind is kPush, kAnswer, kVerdict or kAbort.
Result<DataHeader> DecodeDataHeader(FrameKind kind, ConstByteSpan bytes, size_t payload_bytes);

// The payload of a want frame: any number of 16-byte references, at most
// kWantCountMax.
inline constexpr size_t kPieceRefBytes = 16;
inline constexpr size_t kWantCountMax = 4096;
void EncodePieceRefs(const std::vector<PieceRef>& refs, std::vector<std::byte>& out);
// Of so many bytes; nothing else of a list can be wrong. A receiver asks before it makes room.
Status CheckPieceRefs(size_t bytes);
Status DecodePieceRefs(ConstByteSpan bytes, std::vector<PieceRef>& refs);

// The payload of a have frame: the last round of a piece whose verdict the sender holds, and the
// piece's home, by which the receiver knows whether it owns it. At most kWantCountMax.
struct HeldPiece {
  PieceRef ref;
  ShardId home = 0;
  friend bool operator==(const HeldPiece&, const HeldPiece&) = default;
};
inline constexpr size_t kHeldPieceBytes = 20;
void EncodeHeldPieces(const std::vector<HeldPiece>& pieces, std::vector<std::byte>& out);
Status DecodeHeldPieces(ConstByteSpan bytes, std::vector<HeldPiece>& pieces);

// The header of an ack frame: answers received on this connection; of a stable frame: answers on
// this connection that every member has. Among them are pieces that have another owner in the
// sender's view, so the news waits for that view.
struct Progress {
  uint64_t count = 0;
  uint64_t epoch = 0;
};
inline constexpr size_t kProgressHeaderBytes = 16;
void EncodeProgress(const Progress& progress, ByteSpan out);
Result<Progress> DecodeProgress(ConstByteSpan bytes);

// The header of a process set's frame is a Progress whose count is the process set's number; its
// payload is a bitmap of ranks, of at most kGroupBytesMax; empty: the sender has removed it. That
// of a joined frame is one, too: its count is the number of the worker's join, from 1; its payload
// is a bitmap of those of the sender's ranks that have joined; empty: all.
inline constexpr size_t kGroupBytesMax = (size_t{1} << 16) / 8;
// Process sets that one worker may be in at a time.
inline constexpr size_t kGroupsMax = size_t{1} << 16;

// The header of a have or resync frame is the epoch.
inline constexpr size_t kNumberHeaderBytes = 8;
void EncodeNumber(uint64_t number, ByteSpan out);
Result<uint64_t> DecodeNumber(ConstByteSpan bytes);

}  // namespace byteps::wire
