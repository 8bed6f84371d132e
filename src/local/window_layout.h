// The layout of a window's memory. The comment of every word says which process writes it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/local/rank_set.h"

namespace byteps::local {

inline constexpr uint32_t kBlocksMax = 32;
// A block has at most two uses at a time: one holds the block, one waits behind it. The words of
// older uses may be overwritten.
inline constexpr uint32_t kUsesOfBlock = 2;

// The words on which one rank sleeps.
struct alignas(64) RankWords {
  std::atomic<uint32_t> events;  // counts events for the rank; each rank that causes one writes
  std::atomic<uint32_t> sleeps;  // how many of its threads may be asleep; only the rank writes
  std::atomic<uint64_t> reads;   // ranks whose heaps it can read; only the rank writes
};

// The progress of a rank in a block: 4 times the use, plus one of the numbers below. Only the rank
// writes.
struct alignas(64) RankMark {
  std::atomic<uint64_t> mark;
  // The offset of its part in its heap, plus 1; 0: the part is in the block. The rank writes it
  // before kHasFilled.
  std::atomic<uint64_t> source;
};
inline constexpr uint64_t kHasFilled = 1;
inline constexpr uint64_t kIsSumming = 2;
inline constexpr uint64_t kHasReleased = 3;

// The words of one block. The counts belong to the use that has the block now: its ranks count up,
// and the last rank that releases the block clears them before it writes `over`.
struct alignas(64) BlockWords {
  std::atomic<uint64_t> over;      // the last use that all its ranks have released
  std::atomic<uint64_t> decision;  // 4 times the use, plus the decision; changes once in each use
  std::atomic<uint32_t> filled;
  std::atomic<uint32_t> claimed;  // shares that a rank sums or has summed
  std::atomic<uint32_t> summed;
  std::atomic<uint32_t> released;
  std::array<RankMark, kLocalRanksMax> marks;
};
inline constexpr uint64_t kIsSum = 1;
inline constexpr uint64_t kIsError = 2;

// One use of a block. Only the carrier writes it. A rank that does not take part may read while the
// carrier overwrites it; the words are atomic, so that such a rank then sees another number.
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
  std::atomic<uint64_t> lost;                  // ranks whose process has ended; any rank adds them
  std::atomic<uint64_t> gone;                  // the same of ranks that had left before
  std::atomic<uint64_t> aborted;               // ranks that have aborted their group of devices
  std::atomic<uint64_t> lenders;               // ranks that lend from their heaps; each adds itself
  std::atomic<uint32_t> awaits_less;           // the carrier waits for ranks to owe less; it writes
  // The places of the ranks in the tree of sums, and the type of its nodes (kernels::Nodes); the
  // carrier writes them before it admits the first use of a generation.
  std::array<std::atomic<uint32_t>, kLocalRanksMax> places;
  std::atomic<uint32_t> nodes;
  std::array<RankWords, kLocalRanksMax> ranks;
  std::array<UseWords, size_t{kUsesOfBlock} * kBlocksMax> uses;  // by block
  std::array<BlockWords, kBlocksMax> blocks;
};

}  // namespace byteps::local
