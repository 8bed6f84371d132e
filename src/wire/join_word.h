// A rank brings this word to a join: the number of operations of all ranks in which it has taken
// part since the last join, and its number. The rank with the highest count has joined last,
// because a rank that works on while others have joined takes part in more operations than they
// did. The order of arrival alone does not tell, because the operations and the join have different
// shards.
//
//   | operations: 32 bits | rank: 32 bits |
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "src/base/types.h"

namespace byteps::wire {

inline constexpr int kJoinRankBits = 32;

constexpr uint64_t JoinWordOf(uint64_t operations, uint32_t rank) {
  return std::min<uint64_t>(operations, UINT32_MAX) << kJoinRankBits | rank;
}
constexpr uint32_t OperationsOfJoin(uint64_t word) {
  return static_cast<uint32_t>(word >> kJoinRankBits);
}
// Reads the count from a word's bytes; 0: the bytes are no word.
inline uint32_t OperationsOfJoin(ConstByteSpan bytes) {
  uint64_t word = 0;
  if (bytes.size() < sizeof(word)) return 0;
  std::memcpy(&word, bytes.data(), sizeof(word));
  return OperationsOfJoin(word);
}
constexpr uint32_t RankOfJoin(uint64_t word) { return static_cast<uint32_t>(word); }

// Finds the rank that has joined last: the rank with the most operations, and among equals the last
// to arrive. The caller gives it the ranks in the order in which they came.
class LastToJoin {
 public:
  constexpr void Take(uint32_t who, uint32_t operations) {
    if (operations < most_) return;
    most_ = operations;
    who_ = who;
  }
  // REQUIRES: Take was called.
  constexpr uint32_t who() const { return who_; }

 private:
  uint32_t most_ = 0;
  uint32_t who_ = 0;
};

}  // namespace byteps::wire
