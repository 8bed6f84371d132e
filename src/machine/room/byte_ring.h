// Bytes from one process of a machine to another, through memory that they share: one writes, one
// reads, and neither waits for the other. Who has put or taken something wakes the other one.
//
// Each end belongs to one thread of one process.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/types.h"

namespace byteps::machine {

inline constexpr size_t kRingBytes = size_t{32} << 10;

// What stands in the memory, which is all zero at first.
struct RingWords {
  alignas(64) std::atomic<uint64_t> written;  // bytes so far; the writer writes
  alignas(64) std::atomic<uint64_t> read;     // bytes so far; the reader writes
  std::atomic<uint32_t> is_full;              // the writer waits for room; both write
  alignas(64) std::array<std::byte, kRingBytes> bytes;
};

class ByteRing {
 public:
  explicit ByteRing(RingWords& words) : words_(&words) {}

  // The writer's end: puts as many of the first bytes as fit, and says how many that were. If some
  // did not, the reader's next Read says so.
  size_t Write(ConstByteSpan bytes);

  // The reader's end: takes as many as there are and `room` holds, and says how many that were.
  // `wake` becomes true if the writer waits for room, and there is some now.
  size_t Read(ByteSpan room, bool& wake);

 private:
  size_t Put(ConstByteSpan bytes);

  RingWords* words_;
};

}  // namespace byteps::machine
