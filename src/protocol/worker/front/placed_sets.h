// Process sets: the ranks that take part in an operation. Number 0 is all ranks. Ranks are resolved
// against the workers with which the generation began; workers that were lost earlier do not belong
// to it. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/base/number_ranges.h"
#include "src/base/slot_set.h"
#include "src/base/status.h"
#include "src/plan/follows_ranks.h"
#include "src/wire/view.h"

namespace byteps::protocol {

inline constexpr uint32_t kNoPlace = UINT32_MAX;

struct PlacedSet {
  std::vector<uint32_t> ranks;    // ascending
  std::vector<uint32_t> present;  // its ranks that belong to the generation, by place
  std::vector<Slot> slot_of;      // their slots, by place
  // The order of the places contributor by contributor (operations/place.h). Empty: the order of
  // the places.
  std::vector<uint32_t> turns;
  uint32_t self = kNoPlace;  // this rank's place
  SlotSet slots;
  bool slots_are_ranks = true;  // each contributor is one process and has its rank's number
  // What bits of the set's sums depend on. A rank that has joined or is gone counts like the
  // others.
  plan::SumBits sum_bits = plan::SumBits::kOnNothingElse;

  // Returns the ranks whose contributors are in the receipt, in the generation in which the set was
  // resolved. If slots are ranks, returns the receipt itself.
  Receipt RanksIn(const Receipt& receipt) const;
};

class PlacedSets {
 public:
  // Resolves all sets, because a generation begins. `roster`: its workers. `rank`: this rank.
  void Begin(const std::vector<wire::WorkerInfo>& roster, uint32_t rank,
             const plan::SumRules& sums = {});

  // kInvalidArgument: the number was used before (0 is all ranks), or `ranks` is empty, has a rank
  // twice, or has a rank that is not in the job. kExhausted: this rank is in the largest possible
  // number of sets.
  Status Add(uint32_t number, const std::vector<uint32_t>& ranks);
  Status Remove(uint32_t number);

  // Returns an error if this rank cannot begin an operation of this set.
  Status Check(const std::string& operation, uint32_t number) const;

  // REQUIRES: the set was added, and not removed.
  const PlacedSet& Of(uint32_t number) const;
  // Returns the numbers of the sets that were added and not removed, in ascending order.
  std::vector<uint32_t> Numbers() const;

 private:
  void Resolve(PlacedSet& set) const;

  std::vector<wire::WorkerInfo> roster_;
  plan::SumRules sums_;
  uint32_t rank_ = 0;
  PlacedSet everybody_;
  std::map<uint32_t, PlacedSet> sets_;  // by number
  NumberRanges removed_;
  size_t inside_ = 0;  // sets with this rank; the shards know these
};

}  // namespace byteps::protocol
