// Process sets: the ranks that take part in an operation. Number 0 is everybody. Ranks are resolved
// against the workers with which the generation began: those that were lost before are no part of
// it. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/base/number_ranges.h"
#include "src/base/slot_set.h"
#include "src/base/status.h"
#include "src/wire/control.h"

namespace byteps::protocol {

inline constexpr uint32_t kNoPlace = UINT32_MAX;

struct PlacedSet {
  std::vector<uint32_t> ranks;    // ascending
  std::vector<uint32_t> present;  // those of the generation, by place
  std::vector<Slot> slot_of;      // the same
  // By place: the order contributor by contributor (operations/place.h). Empty: that of the places.
  std::vector<uint32_t> turns;
  uint32_t self = kNoPlace;  // this rank's place
  SlotSet slots;
  bool slots_are_ranks = true;  // each contributor is one process and has its rank's number

  // Those whose contributors are in the receipt, in the generation in which it was resolved: the
  // receipt itself, where its slots are ranks.
  Receipt RanksIn(const Receipt& receipt) const;
};

class PlacedSets {
 public:
  // A generation begins. `roster`: its workers; `rank`: this one.
  void Begin(const std::vector<wire::WorkerInfo>& roster, uint32_t rank);

  // kInvalidArgument: a number that was used before (0 is everybody), no ranks, one of them twice,
  // or one that the job has not. kExhausted: this rank is in as many as there can be.
  Status Add(uint32_t number, const std::vector<uint32_t>& ranks);
  Status Remove(uint32_t number);

  // Whether this rank can begin an operation of this set.
  Status Check(const std::string& operation, uint32_t number) const;

  // REQUIRES: it was added.
  const PlacedSet& Of(uint32_t number) const;
  // Those that were added and not removed, by number.
  std::vector<uint32_t> Numbers() const;

 private:
  void Resolve(PlacedSet& set) const;

  std::vector<wire::WorkerInfo> roster_;
  uint32_t rank_ = 0;
  PlacedSet everybody_;
  std::map<uint32_t, PlacedSet> sets_;  // by number
  NumberRanges removed_;
  size_t inside_ = 0;  // sets with this rank: shards know these
};

}  // namespace byteps::protocol
