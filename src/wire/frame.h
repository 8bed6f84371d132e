// Frames between a worker and a shard, as values. docs/wire-format.md is the specification;
// frame_test.cc holds golden bytes.
//
// A frame of a piece is a DataFrame: its payload travels from place to place without a copy. Every
// other frame is small, and is a Frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/base/types.h"
#include "src/wire/data.h"
#include "src/wire/frame_kind.h"

namespace byteps::wire {

// A push, an answer or a verdict, as its sender has it.
struct DataFrame {
  FrameKind kind = FrameKind::kPush;  // kPush, kAnswer or kVerdict
  DataHeader header;
  ConstByteSpan payload;  // borrowed; lives as long as `keep`, if `keep` is set
  BufferRef keep;
};

// The bytes of headers: of an epoch, and of a number with an epoch.
inline constexpr size_t kEpochHeaderBytes = 8;
inline constexpr size_t kNumberHeaderBytes = 16;
// The most pieces that a want or a have names, and the bytes of each of them.
inline constexpr size_t kWantCountMax = 4096;
inline constexpr size_t kPieceRefBytes = 16;
inline constexpr size_t kHeldPieceBytes = 20;
// The most process sets that one worker may be in at a time.
inline constexpr size_t kProcessSetsMax = size_t{1} << 16;

// The last round of a piece whose verdict a worker holds, and the piece's home, by which the
// receiver knows whether it owns the piece.
struct HeldPiece {
  PieceRef ref;
  ShardId home = 0;
  friend bool operator==(const HeldPiece&, const HeldPiece&) = default;
};

// ---- From a worker to the owner of a piece. `epoch` is that of the worker's view.

// Takes the place of the push with this header, and asks that the round ends in an error.
struct Abort {
  DataHeader push;
  std::string why;  // at most kAbortTextMax bytes of it travel
};

// The worker holds these verdicts, and knows that they are stable.
struct Have {
  uint64_t epoch = 0;
  std::vector<HeldPiece> pieces;
};

// The worker has said all that concerns the view of this epoch.
struct Resync {
  uint64_t epoch = 0;
};

// The number of answers that the worker has received on this connection. Some may be about pieces
// that have another owner in the worker's view, so the receiver waits for that view.
struct Ack {
  uint64_t count = 0;
  uint64_t epoch = 0;
};

// The ranks of the process set with this number, as a bitmap of at most kProcessSetBytesMax bytes.
// Without bytes: the worker has removed the set, and pushes nothing more for it. A worker tells a
// set before its first push for the set, on each connection.
struct ProcessSet {
  uint64_t number = 0;
  uint64_t epoch = 0;
  std::vector<std::byte> bitmap;
};

// The worker takes no part in rounds until its join with this number, from 1, is over. `bitmap`:
// only these of its ranks take no part. Without bytes: all of them; without a bit: none.
struct Joined {
  uint64_t number = 0;
  uint64_t epoch = 0;
  std::vector<std::byte> bitmap;
};

// ---- From the owner to a worker.

// The owner waits for these pieces. They pass the worker's credit.
struct Want {
  std::vector<PieceRef> pieces;
};

// The number of answers on this connection that every member has. In the owner's view, which has
// this epoch, some may be about pieces with another owner, so the receiver waits for that view.
struct Stable {
  uint64_t count = 0;
  uint64_t epoch = 0;
};

using Frame = std::variant<Abort, Want, Have, Resync, Ack, Stable, ProcessSet, Joined>;

FrameKind KindOf(const Frame& frame);
// Returns the epoch of the view that the sender had; 0 for a want, which waits for no view.
uint64_t EpochOf(const Frame& frame);
// Returns the length of the payload.
size_t BytesOf(const Frame& frame);

// Writes the header and returns its length. REQUIRES: out.size() >= kDataHeaderBytesMax.
size_t EncodeFrameHeader(const Frame& frame, ByteSpan out);
// Writes the payload. REQUIRES: out.size() == BytesOf(frame).
void EncodeFramePayload(const Frame& frame, ByteSpan out);

// The side of a connection that reads a frame.
enum class Reader : uint8_t { kWorker, kShard };

// Returns the frame with this header, without what its payload says; DecodeFramePayload adds that.
// kProtocol: a header of a wrong length, or a frame that `reader` never gets: another kind, or more
// payload than the kind has. So a receiver makes room for no more than a frame may have.
Result<Frame> DecodeFrameHeader(Reader reader, FrameKind kind, ConstByteSpan header,
                                size_t payload_bytes);
// REQUIRES: DecodeFrameHeader returned `frame`, for a payload of this length.
Status DecodeFramePayload(ConstByteSpan payload, Frame& frame);

}  // namespace byteps::wire
