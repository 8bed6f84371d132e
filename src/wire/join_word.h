// What a rank brings to a join: how many operations of all ranks it has taken part in since they
// joined last, and its number. The highest count has joined last: a rank that works on while others
// have joined takes part in more than they did. Arrival alone does not tell, because the operations
// and the join have different shards.
//
//   | operations: 32 bits | rank: 32 bits |
#pragma once

#include <algorithm>
#include <cstdint>

namespace byteps::wire {

inline constexpr int kJoinRankBits = 32;

constexpr uint64_t JoinWordOf(uint64_t operations, uint32_t rank) {
  return std::min<uint64_t>(operations, UINT32_MAX) << kJoinRankBits | rank;
}
constexpr uint32_t OperationsOfJoin(uint64_t word) {
  return static_cast<uint32_t>(word >> kJoinRankBits);
}
constexpr uint32_t RankOfJoin(uint64_t word) { return static_cast<uint32_t>(word); }

}  // namespace byteps::wire
