// The contributors of a shard's view, by slot, and what each has said of itself: which view it has,
// whether it has told all it holds, how often it has joined. A contributor is one process or
// several; the shard talks to one of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/slot_set.h"
#include "src/base/types.h"
#include "src/wire/control.h"

namespace byteps::protocol {

// One thread at a time. REQUIRES of all that take a slot: slot < size().
class Members {
 public:
  // A view is in force. `begins`: it begins a generation, in which nobody has said anything yet.
  // Returns who was in the view before and is not in this one.
  std::vector<Slot> SetView(const wire::View& view, bool begins);

  // Slots of the generation are 0 ... size() - 1; some may be holes.
  Slot size() const { return static_cast<Slot>(members_.size()); }
  bool IsPresent(Slot slot) const { return members_[slot].present; }
  // In the view, and some of its processes have not left in order: it is answered, and must come to
  // hold what it takes part in.
  bool IsServed(Slot slot) const { return members_[slot].present && !members_[slot].left; }
  uint32_t present_count() const { return present_count_; }
  uint32_t served_count() const { return served_count_; }
  // All in the view. The same object until the next view.
  const Receipt& everybody() const { return everybody_; }

  // Ranks of the generation, also of members that are gone, and whose they are; kNoSlot: nobody's.
  uint32_t rank_count() const { return static_cast<uint32_t>(slot_of_rank_.size()); }
  Slot SlotOf(uint32_t rank) const {
    return rank < slot_of_rank_.size() ? slot_of_rank_[rank] : kNoSlot;
  }
  // Ranks of the view that have left in order; all others of their contributor may still be here.
  const RankSet& left_ranks() const { return left_ranks_; }
  bool AnyHasLeft() const { return any_has_left_; }
  // For texts: "worker 3", "workers 4, 5", by rank. Any slot.
  std::string NameOf(Slot slot) const;
  const std::vector<uint32_t>& RanksOf(Slot slot) const { return members_[slot].ranks; }

  // What a member says of itself. `epoch`: the newest view that it is known to have; `resynced`:
  // the last one of which it has said all it holds; `joined`: the number of its last join, from 1.
  void NoteEpoch(Slot slot, uint64_t epoch);
  void NoteResync(Slot slot, uint64_t epoch);
  // `ranks`: those of its ranks that have joined; empty: all.
  void NoteJoin(Slot slot, uint64_t number, RankSet ranks = {});
  uint64_t epoch(Slot slot) const { return members_[slot].epoch; }
  uint64_t resynced(Slot slot) const { return members_[slot].resynced; }
  uint64_t joined(Slot slot) const { return members_[slot].joined; }
  // The member has told that this rank of it has joined, for the time `joined`.
  bool HasJoined(Slot slot, uint32_t rank) const {
    const Member& member = members_[slot];
    return member.joined > 0 && (member.joined_ranks.empty() || member.joined_ranks.Contains(rank));
  }
  // The same of all its ranks. A machine of which some have not still takes part.
  bool HaveAllJoined(Slot slot) const;
  // The highest number of a join that anybody told.
  uint64_t last_join() const { return last_join_; }
  // Its connection is gone: on the next one it says again which view it has and what it holds.
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
  uint32_t present_count_ = 0;
  uint32_t served_count_ = 0;
  uint64_t last_join_ = 0;
  Receipt everybody_;
};

}  // namespace byteps::protocol
