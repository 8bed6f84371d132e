// The ranks that take part in an operation, and the place of this rank among them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/types.h"

namespace byteps::operations {

// Neighbouring ranks: the places from `begin` to `end`, without the last.
struct PlaceRun {
  uint32_t begin = 0;
  uint32_t end = 0;

  bool Has(uint32_t place) const { return begin <= place && place < end; }
  friend bool operator==(const PlaceRun&, const PlaceRun&) = default;
};

// A value that borrows.
//
// The ranks of one contributor bring one span of each piece. If other ranks stand between them,
// `turns` orders all ranks contributor by contributor. Tables travel in that order, and pieces end
// where a run of ranks ends that are neighbours in both orders.
struct Place {
  std::span<const uint32_t> ranks;  // by place, ascending: the ranks of the process set that exist
  uint32_t self = 0;
  std::span<const uint32_t> turns;  // by place; empty: the places themselves

  uint32_t count() const { return static_cast<uint32_t>(ranks.size()); }
  // REQUIRES: this rank takes part.
  uint32_t rank() const { return ranks[self]; }
  uint32_t TurnOf(uint32_t place) const { return turns.empty() ? place : turns[place]; }

  // Returns the number of runs; one if the ranks of each contributor are neighbours. Each of these
  // functions looks at all places.
  uint32_t RunCount() const;
  // REQUIRES: number < RunCount().
  PlaceRun Run(uint32_t number) const;
  // Returns the number of the run that has this place.
  uint32_t RunOf(uint32_t place) const;
};

// Makes Place::turns from the contributor of each place. The contributor with the lowest place
// comes first. Returns an empty list if the ranks of each contributor are neighbours.
std::vector<uint32_t> TurnsByContributor(std::span<const Slot> slots);

}  // namespace byteps::operations
