// Carries bytes from one process of a machine to another, through memory that they share. One
// process writes, the other reads, and neither waits for the other. A process that has put or taken
// bytes wakes the other one.
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

// The contents of the shared memory, which is all zero at first.
struct RingWords {
  alignas(64) std::atomic<uint64_t> written;  // bytes so far; the writer writes
  alignas(64) std::atomic<uint64_t> read;     // bytes so far; the reader writes
  std::atomic<uint32_t> is_full;              // the writer waits for room; both write
  alignas(64) std::array<std::byte, kRingBytes> bytes;
};

class ByteRing {
 public:
  explicit ByteRing(RingWords& words) : words_(&words) {}

  // The writer's end. Puts as many of the first bytes as fit, and returns their number. If not all
  // bytes fit, the reader's next Read sets `wake`.
  size_t Write(ConstByteSpan bytes);

  // The reader's end. Takes as many bytes as there are and `room` holds, and returns their number.
  // Sets `wake` to true if the writer waits for room, and there is some now.
  size_t Read(ByteSpan room, bool& wake);

 private:
  size_t Put(ConstByteSpan bytes);

  RingWords* words_;
};

}  // namespace byteps::machine
