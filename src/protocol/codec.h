// Codecs: other forms of a piece's bytes, for the way between worker and shard. Processes send,
// keep, repeat and adopt the encoded form. Only code that combines or uses the numbers decodes it.
//
// All workers and servers of a job need the same codecs. Nobody compares them when a process joins
// (wire::Join has no list of codecs; control/changes/join_check.h would be the place). So in a job
// with servers a process that lacks one makes each operation with it an error on every rank:
// EncodeStage of a worker, Rounds of a shard.
//
// A codec keeps nothing. Error feedback is a stage of a worker (worker/lane/piece_path.h). Answers
// have none: a Combiner has no state of a piece. That state would lie in Piece
// (shard/state/piece_table.h), which goes when the piece changes its owner; the sums after that
// would have other bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/status.h"
#include "src/base/types.h"

namespace byteps::protocol {

// Stateless; may be called from any thread. Does not block. The same input has the same output
// everywhere: all ranks decode one verdict to the same bits.
class Codec {
 public:
  virtual ~Codec() = default;
  // Returns whether the codec encodes numbers of this type. If not, Front::Submit refuses the
  // operation, and no worker or shard calls the functions below.
  virtual bool Supports(DataType type) const = 0;
  // Returns the most bytes that Encode writes: at most wire::kCodecExtraBytesMax more than the
  // piece has.
  virtual size_t EncodedBytesMax(DataType type, size_t piece_bytes) const = 0;
  // Returns the number of bytes that it has written. REQUIRES: out.size() >= EncodedBytesMax.
  virtual size_t Encode(DataType type, ConstByteSpan piece, ByteSpan out) const = 0;
  // Fills the whole piece. Returns an error if Encode cannot have written `encoded`; the piece's
  // bytes then mean nothing.
  virtual Status Decode(DataType type, ConstByteSpan encoded, ByteSpan piece) const = 0;
};

// The codecs that a process has, by the id in a data header; 0 is no codec. This class has none.
class Codecs {
 public:
  virtual ~Codecs() = default;
  // Returns null if there is no codec with this id. The codec lives as long as this object.
  virtual const Codec* Find(uint8_t id) const {
    static_cast<void>(id);
    return nullptr;
  }
  static const Codecs& None() {
    static const Codecs none;
    return none;
  }
};

}  // namespace byteps::protocol
