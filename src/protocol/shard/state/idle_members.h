// Members that want nothing of a decided piece and are answered later.
//
// In a reducescatter or an alltoall each rank wants only its own part of the result. Of a piece
// that another rank wants, its own answer says nothing but "you may forget what you pushed". That
// must not be said before those who want the bytes have them: if this server died in between,
// nobody could make the verdict again. So the idle members wait here until all others hold it. What
// they are told then is an empty verdict: decided, and nobody needs the bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/slot_set.h"
#include "src/wire/data.h"

namespace byteps::protocol {

// One thread at a time.
class IdleMembers {
 public:
  // `slot` has pushed `ref`, wants nothing, and waits.
  void Add(const wire::PieceRef& ref, Slot slot, int32_t priority) {
    ref_ = ref;
    waiting_.Insert(slot);
    priority_ = priority;
  }
  // It brought all of the bytes itself.
  void NoteHasAll(Slot slot) { have_all_.Insert(slot); }

  // Nobody has to wait for `slot`: it wants nothing, or has it all.
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
