// A ring carries bytes from one process to another through memory that both have mapped. One end, a
// RingWriter, writes; the other, a RingReader, reads; neither waits here.
//
// An end that has nothing to do says so in a word of the ring (Wait), and the other end then learns
// that it has to wake it (TakeWake). The users choose the means of waking. An end does not trust
// words that the other end can write at any time: it reads each word once, checks it, and keeps its
// own position to itself. A ring whose words are impossible is broken for good. An end copies bytes
// out before anybody looks at them.
//
// An end belongs to one thread. Nothing blocks, nothing allocates.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/types.h"

namespace byteps::local {

// The words of a ring in shared memory, beside its bytes. Fresh memory, all zero, is an empty ring.
struct RingWords {
  // Bytes since the beginning. Only one end writes each count, which lies on a cache line of its
  // own.
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
  // reader_is_awake, not 0: the reader looks again by itself. writer_waits, not 0: the writer waits
  // for room. Both ends write these words.
  alignas(64) std::atomic<uint32_t> reader_is_awake;
  std::atomic<uint32_t> writer_waits;
};

class RingWriter {
 public:
  RingWriter() = default;
  // Words and bytes must be zero, and must outlive this object.
  RingWriter(RingWords* words, ByteSpan bytes) : words_(words), bytes_(bytes) {}

  // Copies a part from the front of `from`, as far as there is room, and returns its size. The
  // caller must call TakeWake after each part, so that the reader can begin with it. 0: there is no
  // room.
  size_t WriteSome(ConstByteSpan from);
  // Asks to be woken when there is room. Returns false if there is some already.
  bool Wait();
  // Returns whether the caller must wake the reader; nobody else is told to.
  bool TakeWake();
  bool broken() const { return broken_; }

 private:
  // Returns how many bytes of the ring are in use; sets broken_ if the words are impossible.
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
  // Words and bytes must be zero, and must outlive this object.
  RingReader(RingWords* words, ConstByteSpan bytes) : words_(words), bytes_(bytes) {}

  // Copies a part of the bytes that are there to the front of `to`, and returns its size. The
  // caller must call TakeWake after each part. 0: there are no bytes.
  size_t ReadSome(ByteSpan to);
  // Asks to be woken when bytes have come. Returns false if there are some already.
  bool Wait();
  // Returns whether the caller must wake the writer: the writer waits, and there is enough room.
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

}  // namespace byteps::local
