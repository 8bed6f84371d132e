// Process sets: which ranks take part in a tensor's rounds. Workers tell a shard of a set before
// they push for it, first of all on a new connection, and when they have removed it. A set is
// forgotten when it is in no open round and nobody on a connection has told of it: whoever comes to
// push for it tells it first. docs/decisions/0011-rounds-of-some.md.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "src/base/slot_set.h"
#include "src/base/status.h"
#include "src/base/types.h"
#include "src/protocol/shard/state/members.h"

namespace byteps::protocol {

// A set of ranks as the view has them. A contributor is in it with one of its ranks or with
// several.
class ProcessSet {
 public:
  ProcessSet() = default;  // of nobody yet
  ProcessSet(uint32_t number, RankSet ranks) : number_(number), ranks_(std::move(ranks)) {}

  uint32_t number() const { return number_; }  // 0: everybody
  const RankSet& ranks() const { return ranks_; }
  bool IncludesRank(uint32_t rank) const { return number_ == 0 || ranks_.Contains(rank); }
  bool Includes(Slot slot) const { return RanksOf(slot) > 0; }
  // For how many of its ranks the contributor speaks, also one that is gone.
  uint32_t RanksOf(Slot slot) const { return slot < ranks_of_.size() ? ranks_of_[slot] : 0; }
  // Its contributors that are in the view. The same object until the next view.
  const Receipt& all() const { return all_; }
  uint32_t present_count() const { return present_count_; }
  // The lowest of its ranks that the contributor speaks for and that has left; UINT32_MAX: none.
  uint32_t LeftRankOf(Slot slot, const Members& members) const;

  // The view is in force. Everybody has the view's own receipt.
  void Review(const Members& members);

  // Members that have told of it on their connection, and not removed it.
  const SlotSet& tellers() const { return tellers_; }
  bool AddTeller(Slot slot) { return tellers_.Insert(slot); }
  bool RemoveTeller(Slot slot) { return tellers_.Remove(slot); }
  void BeginRound() { ++open_rounds_; }
  void EndRound() { --open_rounds_; }
  void ForgetRounds() { open_rounds_ = 0; }
  bool IsNeeded() const { return number_ == 0 || open_rounds_ > 0 || !tellers_.empty(); }

 private:
  uint32_t number_ = 0;
  RankSet ranks_;                   // of everybody: none
  std::vector<uint32_t> ranks_of_;  // by slot
  Receipt all_;
  uint32_t present_count_ = 0;
  SlotSet tellers_;
  uint32_t open_rounds_ = 0;
};

// One thread at a time. A set that Find or For returns stays where it is while it is needed.
class ProcessSets {
 public:
  // `members` outlives it.
  explicit ProcessSets(const Members& members) : members_(members) {}

  // After each view of the members. `begins`: all sets are forgotten.
  void OnView(bool begins);

  // Null: nobody has told of it, or it is forgotten.
  const ProcessSet* Find(uint32_t number) const;
  // The set, if `from` may push for it; null: it has not told of it, and NotTold says so.
  ProcessSet* For(Slot from, uint32_t number);
  Status NotTold(Slot from, uint32_t number) const;

  // `from` tells which ranks are in the set, as a bitmap; an empty one: it has removed the set.
  // kProtocol: no correct worker says that, or another one has told of other ranks.
  Status Tell(Slot from, uint64_t number, ConstByteSpan bitmap);
  // The connection of `from` is gone.
  void ForgetConnection(Slot from);
  // A round of the set has ended.
  void EndRound(ProcessSet& set);

  size_t size() const { return sets_.size(); }

 private:
  Status Add(Slot from, uint32_t number, RankSet ranks);
  void Remove(Slot from, uint32_t number);

  const Members& members_;
  ProcessSet everybody_;
  std::unordered_map<uint32_t, ProcessSet> sets_;  // by number
  std::vector<size_t> told_;                       // by slot: of how many sets it is a teller
};

}  // namespace byteps::protocol
