// Ranks that wait for each other, so that none of their operations can ever end. The whole search
// is here: ranks say what they wait for and answer questions, and the result is mismatches.
//
// The search is needed for this reason. Say that rank 0 calls push_pull of "a" and then of "b", and
// rank 1 calls it of "b" and then of "a". Each waits for its first call before it begins the
// second. Nothing is wrong with either name: in each, one rank has come and the other one is on its
// way. Only the two names together show that nobody ever comes. So each rank that has waited for
// half a second says for what. The coordinator draws an arrow from operation U to operation V if a
// rank can begin U only after V has ended. A circle of arrows is an error on all of its ranks, at
// once and with the names, instead of a time-out without a reason.
//
// Arrows come from two kinds of words. Within one name a rank has one process set open at a time,
// and says in the same word how far it is in the others. This is enough, and the circle is found
// when its last rank speaks. Between names a rank may have any number of operations open. Only a
// stuck rank makes an arrow: it can begin nothing before its operation has ended. The coordinator
// has to ask it for the uses that it has not begun (stuck_ranks.h). Both kinds hold however old the
// words are; wait_circles.cc and stuck_ranks.h say why.
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
#include "src/wire/names.h"

namespace byteps::protocol {

class WaitCircles {
 public:
  using Question = StuckRanks::Question;
  // The thing that a rank waits for, by its own word.
  struct Wait {
    uint64_t incarnation = 0;
    wire::Use use;
    TensorId tensor = 0;
    std::vector<wire::Use> elsewhere;  // how far the rank is in this name, in other process sets
    std::shared_ptr<const std::vector<uint32_t>> ranks;  // of its process set; null: all ranks
  };
  // Uses that fail as one.
  struct Mismatch {
    std::vector<wire::NamedUse> uses;
    StatusCode code = StatusCode::kMismatch;
    std::string text;
  };
  // Describes a tensor of this use for people: "sum of float32[3] of all ranks"; empty: not known.
  using Describe = std::function<std::string(const wire::NamedUse&, TensorId)>;

  explicit WaitCircles(Describe describe) : describe_(std::move(describe)) {}

  // Notes that the rank waits for this, and no longer for an earlier use of the name. Returns the
  // circle within the name that this closes, if any.
  std::optional<Mismatch> Add(uint32_t rank, const std::string& name, const Wait& wait);
  // Notes that the rank is stuck in the use that it waits for in this name. Returns the questions
  // that must be asked now.
  std::vector<Question> AddStuck(uint32_t rank, const std::string& name);
  // Takes an answer. If this returns true, Judge should follow a little later. Other stuck ranks
  // have answered by then, too, and all of them get the same error.
  bool OnUnbegun(uint32_t rank, uint64_t incarnation, const wire::Unbegun& answer);
  // Returns a circle between names, if there is one. It stays until its uses are forgotten
  // (ForgetUses).
  std::optional<Mismatch> Judge() const;

  // Notes that the rank no longer waits in this name. `stuck_anywhere`: it is not stuck in any
  // other name either.
  void Forget(uint32_t rank, uint64_t incarnation, const std::string& name, bool stuck_anywhere);
  // Notes that the rank has begun something else in this name.
  void ForgetWait(uint32_t rank, const std::string& name);
  // Forgets all waits in this process set of the name, up to this attempt.
  void ForgetUses(const std::string& name, const wire::Use& use);
  // Forgets what members wait for that are gone, by incarnation, or that will say it again.
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
