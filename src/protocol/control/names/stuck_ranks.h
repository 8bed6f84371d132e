// Ranks that can begin nothing before one of their operations has ended, and circles of such
// operations, over all names.
//
// A rank says that it is stuck in a use. Then the coordinator asks it for the uses that it has not
// begun, among those that other ranks are stuck in and that need its part. Say that the rank is
// stuck in V and has not begun U. That is an arrow from U to V, because U needs a part that comes
// only after V has ended. A circle of arrows is a mismatch: none of its operations can ever end.
//
// This holds however old the words are. Say U is the first operation of the circle to end, now or
// at any other time, and B is the rank of its arrow to V. U had B's part then, so B had begun U. B
// had not begun U when it answered out of V, and B could begin nothing until V ended. So V ended
// before U.
//
// An operation ends without the part of B only in these cases:
//
//   * B has joined. It was not stuck in a join, because a worker never says so, so it has joined
//     after V had ended. When B comes back, its rounds count one join more, so it is asked only
//     about uses that count as many joins as V.
//   * B was lost or has left. Then its word is forgotten.
//   * The operation ends in an error, or B can go on although V is open (Ctrl-C). Then B takes its
//     word back. Only if that crosses with a verdict, a use can fail although B no longer lacks it.
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
#include "src/wire/names.h"

namespace byteps::protocol {

class StuckRanks {
 public:
  struct Wait {
    uint64_t incarnation = 0;
    wire::NamedUse use;
    TensorId tensor = 0;
    std::shared_ptr<const std::vector<uint32_t>> ranks;  // of its process set; null: all ranks
  };
  struct Question {
    uint64_t to = 0;  // the incarnation of a worker
    wire::Unbegun message;
  };
  using Circle = std::vector<wire::NamedUse>;

  // Notes that the rank is stuck in this use, and no longer in an earlier one. Returns the
  // questions that others must be asked now.
  std::vector<Question> Add(uint32_t rank, const Wait& wait);
  // Notes that the rank is not stuck, as far as is known: not in this name, or not in any name.
  void Remove(uint32_t rank, uint64_t incarnation, const std::string& name);
  void Remove(uint32_t rank, uint64_t incarnation);
  void RemoveIf(const std::function<bool(const Wait&)>& gone);
  void Clear() { stuck_.clear(); }

  // Takes an answer. Returns true if there may be a circle now.
  bool OnUnbegun(uint32_t rank, uint64_t incarnation, const wire::Unbegun& answer);
  // Returns the circles. From each use of a circle arrows lead to all other uses of the circle.
  std::vector<Circle> Circles() const;

  // Returns the ranks that are stuck in the use, the lowest first.
  std::vector<std::pair<uint32_t, const Wait*>> In(const wire::NamedUse& use) const;
  // Returns the lowest rank that is stuck in a use of `circle` and has not begun `use`.
  uint32_t Lacking(const wire::NamedUse& use, const Circle& circle) const;

 private:
  struct Stuck {
    Wait wait;
    std::map<wire::NamedUse, bool> asked;  // true: the rank has not begun the use
  };
  // Asks `of` about `about`, unless the question is idle or was asked already.
  static void Ask(uint32_t rank, Stuck& of, const Wait& about, std::vector<Question>& questions);

  std::map<uint32_t, Stuck> stuck_;  // by rank
};

}  // namespace byteps::protocol
