// The ranks of one machine, from 0, as bits of a word.
#pragma once

#include <cstdint>

namespace byteps::local {

using RankSet = uint64_t;

inline constexpr uint32_t kLocalRanksMax = 64;

// REQUIRES: rank < kLocalRanksMax.
constexpr RankSet Bit(uint32_t rank) { return RankSet{1} << rank; }
constexpr bool Has(RankSet ranks, uint32_t rank) { return (ranks & Bit(rank)) != 0; }
// Returns the ranks below `count`. REQUIRES: count <= kLocalRanksMax.
constexpr RankSet FirstRanks(uint32_t count) {
  return count == kLocalRanksMax ? ~RankSet{0} : Bit(count) - 1;
}

}  // namespace byteps::local
