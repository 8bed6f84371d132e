// The contributors of a shard's view, by slot, and what each has said of itself: which view it has,
// whether it has told all it holds, and how often it has joined. A contributor is one process or
// several. The shard talks to one of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/slot_set.h"
#include "src/base/types.h"
#include "src/wire/view.h"

namespace byteps::protocol {

// One thread at a time. REQUIRES of all functions that take a slot: slot < size().
class Members {
 public:
  // Takes a new view. `begins`: it begins a generation, in which no member has said anything yet.
  // Returns the members that were in the view before and are not in this one.
  std::vector<Slot> SetView(const wire::View& view, bool begins);

  // The slots of the generation are 0 ... size() - 1. Some slots may be empty.
  Slot size() const { return static_cast<Slot>(members_.size()); }
  bool IsPresent(Slot slot) const { return members_[slot].present; }
  // Returns whether the contributor is in the view, and some of its processes have not left in
  // order. The shard answers such a contributor, which must come to hold the verdicts that it takes
  // part in.
  bool IsServed(Slot slot) const { return members_[slot].present && !members_[slot].left; }
  uint32_t present_count() const { return present_count_; }
  uint32_t served_count() const { return served_count_; }
  // Returns all members of the view. The object stays the same until the next view.
  const Receipt& everybody() const { return everybody_; }

  // rank_count counts the ranks of the generation, with the ranks of members that are gone. SlotOf
  // returns the contributor of a rank; kNoSlot: the rank has none.
  uint32_t rank_count() const { return static_cast<uint32_t>(slot_of_rank_.size()); }
  Slot SlotOf(uint32_t rank) const {
    return rank < slot_of_rank_.size() ? slot_of_rank_[rank] : kNoSlot;
  }
  // Returns the ranks of the view that have left in order. Other ranks of the same contributor may
  // still be here.
  const RankSet& left_ranks() const { return left_ranks_; }
  bool AnyHasLeft() const { return any_has_left_; }
  // Return the view's sum_group and same_bits.
  uint32_t sum_group() const { return sum_group_; }
  bool same_bits() const { return same_bits_; }
  // Returns a name for texts: "worker 3", or "workers 4, 5", by rank. Takes any slot.
  std::string NameOf(Slot slot) const;
  const std::vector<uint32_t>& RanksOf(Slot slot) const { return members_[slot].ranks; }

  // A member's reports about itself. `epoch`: the newest view that it is known to have. `resynced`:
  // the last view of which it has said all it holds. `joined`: the number of its last join, from 1.
  void NoteEpoch(Slot slot, uint64_t epoch);
  void NoteResync(Slot slot, uint64_t epoch);
  // `ranks`: the ranks of the member that have joined; empty: all of them.
  void NoteJoin(Slot slot, uint64_t number, RankSet ranks = {});
  uint64_t epoch(Slot slot) const { return members_[slot].epoch; }
  uint64_t resynced(Slot slot) const { return members_[slot].resynced; }
  uint64_t joined(Slot slot) const { return members_[slot].joined; }
  // Returns whether the member has told that this rank of it has joined, in the join `joined`.
  bool HasJoined(Slot slot, uint32_t rank) const {
    const Member& member = members_[slot];
    return member.joined > 0 && (member.joined_ranks.empty() || member.joined_ranks.Contains(rank));
  }
  // Returns the same for all ranks of the member. While some ranks of a machine have not joined,
  // the machine takes part.
  bool HaveAllJoined(Slot slot) const;
  // Returns the highest number of a join that any member told.
  uint64_t last_join() const { return last_join_; }
  // Forgets the member's reports, because its connection is gone. On the next connection it says
  // again which view it has and what it holds.
  void ForgetConnection(Slot slot);

 private:
  struct Member {
    bool present = false;
    bool left = false;
    std::vector<uint32_t> ranks;  // ascending
    uint64_t epoch = 0;
    uint64_t resynced = 0;
    uint64_t joined = 0;
    RankSet joined_ranks;  // empty: all
  };

  std::vector<Member> members_;
  std::vector<Slot> slot_of_rank_;
  RankSet left_ranks_;
  bool any_has_left_ = false;
  uint32_t sum_group_ = 1;
  bool same_bits_ = false;
  uint32_t present_count_ = 0;
  uint32_t served_count_ = 0;
  uint64_t last_join_ = 0;
  Receipt everybody_;
};

}  // namespace byteps::protocol
