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

// Worker to owner, in place of the push with this header: asks that the round ends in an error.
struct Abort {
  DataHeader push;
  std::string why;  // at most kAbortTextMax bytes of it travel
};
// Owner to worker: names pieces that the owner waits for. They pass the worker's credit. At most
// kWantCountMax.
struct Want {
  std::vector<PieceRef> pieces;
};
// Worker to owner: the worker holds these verdicts, and knows that they are stable. At most
// kWantCountMax.
struct Have {
  uint64_t epoch = 0;
  std::vector<HeldPiece> pieces;
};
// Worker to owner: the worker has said all that concerns the view of this epoch.
struct Resync {
  uint64_t epoch = 0;
};
// Worker to owner: the answers that the worker has received on this connection. Among these are
// answers about pieces that have another owner in the sender's view, so the news waits for that
// view.
struct Ack {
  uint64_t count = 0;
  uint64_t epoch = 0;
};
// Owner to worker: the answers on this connection that every member has. As an ack, it waits for
// the view of its epoch.
struct Stable {
  uint64_t count = 0;
  uint64_t epoch = 0;
};
// Worker to owner: the ranks of the process set with this number, as a bitmap of at most
// kProcessSetBytesMax bytes. Without bytes: the sender has removed the set.
struct ProcessSet {
  uint64_t number = 0;
  uint64_t epoch = 0;
  std::vector<std::byte> bitmap;
};
// Worker to owner: the sender takes no part in rounds until its join with this number, from 1, is
// over. `bitmap`: only these of its ranks take no part. Without bytes: all; without a bit: none.
struct Joined {
  uint64_t number = 0;
  uint64_t epoch = 0;
  std::vector<std::byte> bitmap;
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
