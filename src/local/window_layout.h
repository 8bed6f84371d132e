// What stands where in the memory of a window. Every word says who writes it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/local/rank_set.h"

namespace byteps::local {

inline constexpr uint32_t kBlocksMax = 32;
// Of each block: the one that has it, and one that waits behind that. Others may be overwritten.
inline constexpr uint32_t kUsesOfBlock = 2;

// Of one rank: what it sleeps on.
struct alignas(64) RankWords {
  std::atomic<uint32_t> events;  // counts what happened that may concern it; whoever did it writes
  std::atomic<uint32_t> sleeps;  // so many of its threads may be asleep; it alone writes
  std::atomic<uint64_t> reads;   // ranks whose heaps it can read; it alone writes
};

// What a rank has done in a block: 4 times the use, plus one of the numbers below. It alone writes.
struct alignas(64) RankMark {
  std::atomic<uint64_t> mark;
  // Where its part is in its heap, plus 1; 0: in the block. Written before it says kHasFilled.
  std::atomic<uint64_t> source;
};
inline constexpr uint64_t kHasFilled = 1;
inline constexpr uint64_t kIsSumming = 2;
inline constexpr uint64_t kHasReleased = 3;

// Of one block. The counts are of the use that has the block now: its ranks count up, and the last
// that releases it clears them before it writes `over`.
struct alignas(64) BlockWords {
  std::atomic<uint64_t> over;      // the last use that all its ranks have released
  std::atomic<uint64_t> decision;  // 4 times the use, plus what was decided; changed once a use
  std::atomic<uint32_t> filled;
  std::atomic<uint32_t> claimed;  // shares that somebody sums, or has summed
  std::atomic<uint32_t> summed;
  std::atomic<uint32_t> released;
  std::array<RankMark, kLocalRanksMax> marks;
};
inline constexpr uint64_t kIsSum = 1;
inline constexpr uint64_t kIsError = 2;

// One use of a block, as the carrier, which alone writes here, describes it. Words, because a rank
// that is not concerned may read while it is overwritten, and then sees another number.
struct alignas(64) UseWords {
  std::atomic<uint64_t> number;
  std::atomic<uint64_t> block;
  std::atomic<uint64_t> after;  // the use of that block before this one
  std::atomic<uint64_t> ranks;
  std::atomic<uint64_t> bring;
  std::atomic<uint64_t> bytes;
  std::atomic<uint64_t> arithmetic;  // type, how to combine, divisor
  std::atomic<uint64_t> tensor_and_piece;
  std::atomic<uint64_t> generation;
  std::atomic<uint64_t> round;
};

struct WindowWords {
  alignas(64) std::atomic<uint64_t> admitted;  // the newest use; the carrier writes
  alignas(64) std::atomic<uint64_t> left;      // ranks that take part no more; each adds itself
  std::atomic<uint64_t> lost;                  // ranks whose process has ended; who sees it adds it
  std::atomic<uint64_t> lenders;               // ranks that sum from their heaps; each adds itself
  std::atomic<uint32_t> awaits_less;           // the carrier waits for ranks to owe less; it writes
  std::array<RankWords, kLocalRanksMax> ranks;
  std::array<UseWords, size_t{kUsesOfBlock} * kBlocksMax> uses;  // by block
  std::array<BlockWords, kBlocksMax> blocks;
};

}  // namespace byteps::local
