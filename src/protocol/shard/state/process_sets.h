// Process sets: the ranks that take part in a tensor's rounds. A worker tells a shard of a set
// before it pushes for the set, first of all on a new connection, and when it has removed the set.
// A set is forgotten when no open round uses it and no member has told of it on its connection. A
// worker that pushes for it later tells of it first. docs/decisions/0011-rounds-of-some.md.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "src/base/slot_set.h"
#include "src/base/status.h"
#include "src/base/types.h"
#include "src/protocol/shard/state/members.h"

namespace byteps::protocol {

// A set of ranks, resolved in the view. A contributor is in the set with one of its ranks or with
// several.
class ProcessSet {
 public:
  ProcessSet() = default;  // has no ranks until Review
  ProcessSet(uint32_t number, RankSet ranks) : number_(number), ranks_(std::move(ranks)) {}

  uint32_t number() const { return number_; }  // 0: all ranks
  const RankSet& ranks() const { return ranks_; }
  bool IncludesRank(uint32_t rank) const { return number_ == 0 || ranks_.Contains(rank); }
  bool Includes(Slot slot) const { return RanksOf(slot) > 0; }
  // Returns how many ranks of the set the contributor speaks for, even if it is gone.
  uint32_t RanksOf(Slot slot) const { return slot < by_slot_.size() ? by_slot_[slot].count : 0; }
  // Returns the lowest of these ranks. REQUIRES: RanksOf is not 0.
  uint32_t FirstOf(Slot slot) const { return by_slot_[slot].first; }
  // Returns the set's contributors that are in the view. The object stays the same until the next
  // view.
  const Receipt& all() const { return all_; }
  uint32_t present_count() const { return present_count_; }
  // Returns the lowest rank of the set that the contributor speaks for and that has left;
  // UINT32_MAX: none has left.
  uint32_t LeftRankOf(Slot slot, const Members& members) const;

  // Resolves the set in the new view. Set 0 has the view's own receipt.
  void Review(const Members& members);

  // Returns the members that have told of the set on their connection, and have not removed it.
  const SlotSet& tellers() const { return tellers_; }
  bool AddTeller(Slot slot) { return tellers_.Insert(slot); }
  bool RemoveTeller(Slot slot) { return tellers_.Remove(slot); }
  void BeginRound() { ++open_rounds_; }
  void EndRound() { --open_rounds_; }
  void ForgetRounds() { open_rounds_ = 0; }
  bool IsNeeded() const { return number_ == 0 || open_rounds_ > 0 || !tellers_.empty(); }

 private:
  uint32_t number_ = 0;
  RankSet ranks_;  // empty for set 0
  struct Ranks {
    uint32_t count = 0;
    uint32_t first = 0;
  };
  std::vector<Ranks> by_slot_;
  Receipt all_;
  uint32_t present_count_ = 0;
  SlotSet tellers_;
  uint32_t open_rounds_ = 0;
};

// One thread at a time. A set that Find or For returns stays where it is while it is needed.
class ProcessSets {
 public:
  // `members` must outlive this object.
  explicit ProcessSets(const Members& members) : members_(members) {}

  // Must be called after each view of the members. `begins`: forgets all sets.
  void OnView(bool begins);

  // Returns null if no member has told of the set, or if it is forgotten.
  const ProcessSet* Find(uint32_t number) const;
  // For returns the set if `from` may push for it. It returns null if `from` has not told of the
  // set; NotTold then makes the error.
  ProcessSet* For(Slot from, uint32_t number);
  Status NotTold(Slot from, uint32_t number) const;

  // Takes the ranks of the set, which `from` tells as a bitmap. An empty bitmap: `from` has removed
  // the set. kProtocol: a correct worker never sends this, or another worker has told of other
  // ranks.
  Status Tell(Slot from, uint64_t number, ConstByteSpan bitmap);
  // Forgets what `from` told, because its connection is gone.
  void ForgetConnection(Slot from);
  // Notes that a round of the set has ended.
  void EndRound(ProcessSet& set);

  size_t size() const { return sets_.size(); }

 private:
  Status Add(Slot from, uint32_t number, RankSet ranks);
  void Remove(Slot from, uint32_t number);

  const Members& members_;
  ProcessSet everybody_;
  std::unordered_map<uint32_t, ProcessSet> sets_;  // by number
  std::vector<size_t> told_;                       // by slot: the sets it has told of
};

}  // namespace byteps::protocol
