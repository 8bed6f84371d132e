// What a rank brings to a join: how many operations of all ranks it has taken part in since they
// joined last, and its number. The highest count has joined last: a rank that works on while others
// have joined takes part in more than they did. Arrival alone does not tell, because the operations
// and the join have different shards.
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
// Of the word as it is brought; 0: those are no words.
inline uint32_t OperationsOfJoin(ConstByteSpan bytes) {
  uint64_t word = 0;
  if (bytes.size() < sizeof(word)) return 0;
  std::memcpy(&word, bytes.data(), sizeof(word));
  return OperationsOfJoin(word);
}
constexpr uint32_t RankOfJoin(uint64_t word) { return static_cast<uint32_t>(word); }

// Who has joined last, of those that it is told of in the order in which they came: who has taken
// part in most operations, and of several the last to come.
class LastToJoin {
 public:
  constexpr void Take(uint32_t who, uint32_t operations) {
    if (operations < most_) return;
    most_ = operations;
    who_ = who;
  }
  // REQUIRES: it was told of somebody.
  constexpr uint32_t who() const { return who_; }

 private:
  uint32_t most_ = 0;
  uint32_t who_ = 0;
};

}  // namespace byteps::wire
