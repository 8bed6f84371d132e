// The places of ranks in the tree of sums. Rank r is the leaf at PlaceOf(r), and a node of height h
// stands above the places that agree in all but their last h bits. So an aligned run of 2^h places,
// a block, is one node, whichever ranks take part and on whichever machines they run.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace byteps {

// Returns the place of a rank. `group` ranks that follow one another have a block of their own, the
// smallest that holds them; with 1, the place is the rank. REQUIRES: group is not 0, and the place
// fits into 32 bits: it is below twice the number of ranks, rounded up to whole groups.
constexpr uint32_t PlaceOf(uint32_t rank, uint32_t group) {
  return rank / group * std::bit_ceil(group) + rank % group;
}

// Returns the places of some ranks, in their order.
inline std::vector<uint32_t> PlacesOf(std::span<const uint32_t> ranks, uint32_t group) {
  std::vector<uint32_t> places;
  places.reserve(ranks.size());
  for (uint32_t rank : ranks) places.push_back(PlaceOf(rank, group));
  return places;
}

// Returns the height of the lowest node above both places; 0 if they are one place.
constexpr uint32_t LevelOf(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>(std::bit_width(a ^ b));
}

}  // namespace byteps
