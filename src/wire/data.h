// Headers of the data path: fixed, little-endian, no allocation. docs/wire-format.md is the
// specification; data_test.cc holds golden bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"

namespace byteps::wire {

// One piece in one round, by name. Rounds count the uses of a name by its group from 1 in each
// generation, over all its tensors (control.h); the lowest byte counts the attempts at an atomic
// tensor's round (RoundOf), so a later attempt is a later round to everybody but the worker.
struct PieceRef {
  TensorId tensor = 0;
  uint32_t piece = 0;
  uint64_t round = 0;

  friend bool operator==(const PieceRef&, const PieceRef&) = default;
};

inline constexpr uint32_t kAttemptsMax = 256;
constexpr uint64_t RoundOf(uint64_t round, uint32_t attempt) { return round * 256 + attempt; }
// The highest 16 bits count how often all workers have joined (Op::kJoin): rounds begin anew there,
// so that a rank that took no part for a while counts as the others do.
inline constexpr uint32_t kJoinsMax = (1U << 16) - 1;
constexpr uint64_t FirstRoundAfter(uint32_t joins) { return uint64_t{joins} << 40; }
constexpr uint32_t JoinsOf(uint64_t round_on_wire) {
  return static_cast<uint32_t>(round_on_wire >> 48);
}

// Header of a push, an answer or a verdict. The sender's slot and incarnation are not in it: the
// handshake bound them to the connection.
struct DataHeader {
  PieceRef ref;
  uint64_t epoch = 0;
  // Answer: its number on this connection, from 1. Push and verdict: all answers up to this number
  // have been received on this connection.
  uint64_t count = 0;
  uint32_t generation = 0;
  int32_t priority = 0;
  // Answer and verdict: 0 = it has the contributions of all workers of `epoch` that are in the
  // tensor's group, and of nobody else; otherwise the payload's first `receipt` bytes are a bitmap
  // of slots. Push: the number of the tensor's group.
  uint32_t receipt = 0;
  // Answer: how many of the latest answers on this connection, this one included, are not yet
  // known to be with every member. Others: 0.
  uint32_t unstable = 0;
  // The shard that the piece was dealt to; with the view it says who owns the piece now.
  ShardId home = 0;
  Combine combine = Combine::kSum;
  DataType dtype = DataType::kFloat32;
  StatusCode status = StatusCode::kOk;  // answer and verdict: an error; the payload is an ErrorRow
  // Where the payload lies in the piece, and (push) which span of the verdict the sender wants.
  // They travel only when they say more than "the payload is the piece, and I want all of it".
  uint32_t piece_bytes = 0;
  uint32_t offset = 0;
  uint32_t want_offset = 0;
  uint32_t want_bytes = 0;

  friend bool operator==(const DataHeader&, const DataHeader&) = default;
};

inline constexpr size_t kDataHeaderBytes = 56;
inline constexpr size_t kDataHeaderRangeBytes = 16;
inline constexpr size_t kDataHeaderBytesMax = kDataHeaderBytes + kDataHeaderRangeBytes;

// A push or an answer that is the whole piece needs no range.
// Writes the header and returns its length: kDataHeaderBytes, or with the range
// kDataHeaderBytesMax. REQUIRES: out.size() >= kDataHeaderBytesMax.
size_t EncodeDataHeader(const DataHeader& header, size_t payload_bytes, ByteSpan out);

// kProtocol for a wrong length, an unknown enumerator, or spans that leave the piece.
Result<DataHeader> DecodeDataHeader(ConstByteSpan bytes, size_t payload_bytes);

// The payload of a want or abort frame: any number of 16-byte references, at most
// kWantCountMax.
inline constexpr size_t kPieceRefBytes = 16;
inline constexpr size_t kWantCountMax = 4096;
void EncodePieceRefs(const std::vector<PieceRef>& refs, std::vector<std::byte>& out);
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

// The header of a group frame is a Progress whose count is the group's number; its payload is a
// bitmap of slots, of at most kGroupBytesMax; empty: the sender has removed it. That of a joined
// frame is one, too: its count is the number of the worker's join, from 1.
inline constexpr size_t kGroupBytesMax = (size_t{1} << 16) / 8;
// Groups that one worker may be in at a time.
inline constexpr size_t kGroupsMax = size_t{1} << 16;

// The header of a have, resync or abort frame is the epoch.
inline constexpr size_t kNumberHeaderBytes = 8;
void EncodeNumber(uint64_t number, ByteSpan out);
Result<uint64_t> DecodeNumber(ConstByteSpan bytes);

}  // namespace byteps::wire
