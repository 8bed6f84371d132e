// Members that want nothing of a decided piece. The shard answers them later.
//
// In a reducescatter or an alltoall each rank wants only its own part of the result. For a piece
// that another rank wants, a rank's answer says only "you may forget what you pushed". The shard
// must not send this answer before the members that want the bytes have them: if this server died
// in between, no process could make the verdict again. So the idle members wait here until all
// others hold the verdict. The shard then sends them an empty verdict: the piece is decided, and no
// member needs the bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/slot_set.h"
#include "src/wire/data.h"

namespace byteps::protocol {

// One thread at a time.
class IdleMembers {
 public:
  // Notes that `slot` has pushed `ref`, wants nothing, and waits for its answer.
  void Add(const wire::PieceRef& ref, Slot slot, int32_t priority) {
    ref_ = ref;
    waiting_.Insert(slot);
    priority_ = priority;
  }
  // Notes that `slot` brought all of the bytes itself.
  void NoteHasAll(Slot slot) { have_all_.Insert(slot); }

  // Returns whether `slot` keeps no member waiting, because it wants nothing, or has all bytes.
  bool IsSettled(Slot slot) const { return waiting_.Contains(slot) || have_all_.Contains(slot); }

  const wire::PieceRef& ref() const { return ref_; }
  int32_t priority() const { return priority_; }
  std::vector<Slot> waiting() const { return waiting_.List(); }
  bool Waits(Slot slot) const { return waiting_.Contains(slot); }

 private:
  wire::PieceRef ref_;
  SlotSet waiting_;
  SlotSet have_all_;
  int32_t priority_ = 0;
};

}  // namespace byteps::protocol
