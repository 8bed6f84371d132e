// Ranks that wait for each other, so that none of their operations can ever end. This is the whole
// search: ranks say what they wait for, and answer what they are asked; out of it come mismatches.
//
// Why it is needed. Say that rank 0 calls push_pull of "a" and then of "b", and rank 1 "b" and then
// "a", each waiting for the first before it begins the second. Nothing is wrong with either name:
// in each, one rank has come and the other one is on its way. Only the two together show that
// nobody ever comes. So each rank that has waited for a while (half a second) says for what, and
// the coordinator draws an arrow from operation U to operation V when some rank can begin U only
// after V has ended. A circle of arrows is an error on all of its ranks, at once and by name,
// instead of a time-out without a reason.
//
// Arrows come from two kinds of words. Within one name a rank has one process set open at a time,
// and says in the same word how far it is in the others: that is enough, and the circle is found
// when its last rank speaks. Between names a rank may have any number of operations open; only one
// that is stuck (it can begin nothing before its operation has ended) makes an arrow, and it has to
// be asked what it has not begun: stuck_ranks.h. Both hold however old the words are; why is said
// beside them.
//
// A value without I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/protocol/control/names/stuck_ranks.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class WaitCircles {
 public:
  using Question = StuckRanks::Question;
  // What a rank waits for, as it has said.
  struct Wait {
    uint64_t incarnation = 0;
    wire::Use use;
    TensorId tensor = 0;
    std::vector<wire::Use> elsewhere;  // how far it is in this name, in other process sets
    std::shared_ptr<const std::vector<uint32_t>> ranks;  // of its process set; null: everybody
  };
  // These uses fail as one.
  struct Mismatch {
    std::vector<wire::NamedUse> uses;
    StatusCode code = StatusCode::kMismatch;
    std::string text;
  };
  // What a tensor of this use is, for people: "sum of float32[3] of all ranks"; empty: not known.
  using Describe = std::function<std::string(const wire::NamedUse&, TensorId)>;

  explicit WaitCircles(Describe describe) : describe_(std::move(describe)) {}

  // The rank waits for this, whatever it was before. A circle within the name, if that closes one.
  std::optional<Mismatch> Add(uint32_t rank, const std::string& name, const Wait& wait);
  // And it is stuck in it, as it waits for it: what must be asked now.
  std::vector<Question> AddStuck(uint32_t rank, const std::string& name);
  // An answer. True: Judge should follow soon, when others that are stuck have said so, too: all
  // get the same error then.
  bool OnUnbegun(uint32_t rank, uint64_t incarnation, const wire::Unbegun& answer);
  // A circle between names; it is there until its uses are forgotten (ForgetUses).
  std::optional<Mismatch> Judge() const;

  // What the rank waits for in this name is over. `stuck_anywhere`: it is stuck in no other one.
  void Forget(uint32_t rank, uint64_t incarnation, const std::string& name, bool stuck_anywhere);
  // It has begun something else in this name.
  void ForgetWait(uint32_t rank, const std::string& name);
  // All that is waited for in this process set of the name, up to this attempt.
  void ForgetUses(const std::string& name, const wire::Use& use);
  // What members wait for that are gone, by incarnation, or will say it again.
  void ForgetIf(const std::function<bool(uint64_t)>& gone);
  void Clear();

 private:
  using Waits = std::map<uint32_t, Wait>;  // by rank

  static bool WaitsInVain(const Wait& wait, const Wait& other);
  static std::vector<uint32_t> FindCircle(const Waits& waits, uint32_t from);
  Mismatch Within(const std::string& name, const Waits& waits,
                  const std::vector<uint32_t>& circle) const;
  std::string SideOf(const wire::NamedUse& use, const StuckRanks::Circle& circle) const;

  Describe describe_;
  std::unordered_map<std::string, Waits> waits_;  // by name
  StuckRanks stuck_;
};

}  // namespace byteps::protocol
