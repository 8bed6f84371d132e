// ByteRing: bytes from one process to another through memory that both have mapped. One end writes,
// the other reads; neither waits here.
//
// Who has nothing to do says so in a word of the ring (Wait), and the other end then learns that it
// has to wake it (TakeWake): by what, is the users' business. An end believes nothing that the
// other one can write at any time: it reads each word once, checks it, and keeps its own position
// to itself. A ring whose words cannot be is broken for good. Bytes are copied out before anybody
// looks at them.
//
// An end belongs to one thread. Nothing blocks, nothing allocates.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/types.h"

namespace byteps::transport {

// What a ring has in shared memory besides its bytes; fresh memory, all zero, is an empty ring.
struct RingWords {
  // Bytes since the beginning; each is written by one end only, and lies on a cache line of its
  // own.
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
  // Not 0: the reader looks again by itself. The writer waits for room. Both ends write them.
  alignas(64) std::atomic<uint32_t> reader_is_awake;
  std::atomic<uint32_t> writer_waits;
};

class RingWriter {
 public:
  RingWriter() = default;
  // Both are zero so far, and outlive this.
  RingWriter(RingWords* words, ByteSpan bytes) : words_(words), bytes_(bytes) {}

  // Copies from the front of `from` what has room, a part at a time, so that the reader can begin
  // with the first; after each part the caller shall ask TakeWake. 0: there is no room.
  size_t WriteSome(ConstByteSpan from);
  // The writer is to be woken when there is room. False if there is some already.
  bool Wait();
  // Whether the reader must be woken; then somebody else has not been told.
  bool TakeWake();
  bool broken() const { return broken_; }

 private:
  // How many bytes of the ring hold something; sets broken_.
  size_t Filled();

  RingWords* words_ = nullptr;
  ByteSpan bytes_;
  uint64_t written_ = 0;
  uint64_t seen_read_ = 0;
  bool broken_ = false;
};

class RingReader {
 public:
  RingReader() = default;
  // As of RingWriter.
  RingReader(RingWords* words, ConstByteSpan bytes) : words_(words), bytes_(bytes) {}

  // Copies what is there to the front of `to`, a part at a time; after each part the caller shall
  // ask TakeWake. 0: nothing is there.
  size_t ReadSome(ByteSpan to);
  // The reader is to be woken when something has come. False if something is there already.
  bool Wait();
  // Whether the writer must be woken: it waits, and there is room that is worth it.
  bool TakeWake();
  bool broken() const { return broken_; }

 private:
  size_t Filled();

  RingWords* words_ = nullptr;
  ConstByteSpan bytes_;
  uint64_t read_ = 0;
  uint64_t seen_written_ = 0;
  bool broken_ = false;
};

}  // namespace byteps::transport
