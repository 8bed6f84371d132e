// Ranks that can begin nothing before an operation of theirs has ended, and circles of such
// operations, over all names.
//
// A rank says that it is stuck in a use. Then it is asked which uses it has not begun, of those
// that other ranks are stuck in and that need its part. Say that it is stuck in V and has not begun
// U: that is an arrow from U to V, since U needs a part that comes only after V has ended. A circle
// of arrows is a mismatch: none of its operations can ever end.
//
// That holds however old the words are. Say U is the first operation of the circle to end, now or
// at any other time, and B is the rank of its arrow to V. U had B's part then, so B had begun U.
// It had not when it answered out of V, and it could begin nothing until V ended: V was before U.
// Only these end an operation without the part of B. B has joined: it was not stuck in a join (a
// worker never says so), so it has joined after V had ended; and when it comes back its rounds
// count one join more, so it is asked only about uses that count as many as V. B was lost or has
// left: then its word is forgotten. Or the operation ends in an error, or B can go on although V is
// open (Ctrl-C): then it takes its word back; only when that crosses with a verdict can a use fail
// of which that is not true any more.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/types.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class StuckRanks {
 public:
  struct Wait {
    uint64_t incarnation = 0;
    wire::NamedUse use;
    TensorId tensor = 0;
    std::shared_ptr<const std::vector<uint32_t>> ranks;  // of its process set; null: everybody
  };
  struct Question {
    uint64_t to = 0;  // incarnation
    wire::Unbegun message;
  };
  using Circle = std::vector<wire::NamedUse>;

  // The rank is stuck in this use, whatever it was before. What others must be asked now.
  std::vector<Question> Add(uint32_t rank, const Wait& wait);
  // It is not, as far as is known: in this name; in any.
  void Remove(uint32_t rank, uint64_t incarnation, const std::string& name);
  void Remove(uint32_t rank, uint64_t incarnation);
  void RemoveIf(const std::function<bool(const Wait&)>& gone);
  void Clear() { stuck_.clear(); }

  // An answer. True: there may be a circle now.
  bool OnUnbegun(uint32_t rank, uint64_t incarnation, const wire::Unbegun& answer);
  // Uses from each of which arrows lead to all others of its circle.
  std::vector<Circle> Circles() const;

  // Who is stuck in the use, by rank, the lowest first.
  std::vector<std::pair<uint32_t, const Wait*>> In(const wire::NamedUse& use) const;
  // The lowest rank that is stuck in one of `circle` and has not begun `use`.
  uint32_t Lacking(const wire::NamedUse& use, const Circle& circle) const;

 private:
  struct Stuck {
    Wait wait;
    std::map<wire::NamedUse, bool> asked;  // true: it has not begun it
  };
  // Asks `of` about `about`, unless that is idle or was done.
  static void Ask(uint32_t rank, Stuck& of, const Wait& about, std::vector<Question>& questions);

  std::map<uint32_t, Stuck> stuck_;  // by rank
};

}  // namespace byteps::protocol
