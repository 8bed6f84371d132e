// The members that may be in a verdict: the contributors of each view, all of them or those of a
// process set. An answer that says "everybody of this view" gets its receipt here. One thread at a
// time.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "src/base/slot_set.h"

namespace byteps::protocol {

class Receipts {
 public:
  // Forgets all views, because a generation begins. Only its views count from now on.
  void Clear() {
    everybody_.clear();
    for (auto& [number, set] : sets_) set.of_view.clear();
  }
  void AddView(uint64_t epoch, Receipt everybody) { everybody_[epoch] = std::move(everybody); }
  bool Knows(uint64_t epoch) const { return everybody_.contains(epoch); }

  void AddProcessSet(uint32_t number, const SlotSet& slots) { sets_[number] = {slots, {}}; }
  void RemoveProcessSet(uint32_t number) { sets_.erase(number); }

  // Returns all contributors of the process set (0: of all ranks) in this view, as one object for
  // each set and view. REQUIRES: Knows(epoch).
  const Receipt& Of(uint32_t process_set, uint64_t epoch) {
    const Receipt& everybody = everybody_.at(epoch);
    auto found = sets_.find(process_set);
    if (found == sets_.end()) return everybody;
    Receipt& receipt = found->second.of_view[epoch];
    if (receipt == nullptr) {
      receipt = std::make_shared<SlotSet>(everybody->And(found->second.slots));
    }
    return receipt;
  }

 private:
  struct PlacedSet {
    SlotSet slots;
    std::map<uint64_t, Receipt> of_view;  // by epoch
  };
  std::map<uint64_t, Receipt> everybody_;  // by epoch
  std::map<uint32_t, PlacedSet> sets_;
};

}  // namespace byteps::protocol
