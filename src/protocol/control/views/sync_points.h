// Who waits at a sync point, and which sync points of the generation everybody has passed
// (docs/membership.md, rule 13). Workers are let in only where all others wait.
//
// A worker that has passed a point proves that every other one may: who asks again has missed the
// answer, and it may be that nobody else ever comes to that point.
// A value without I/O; workers are known by incarnation.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "src/protocol/control/members/departures.h"
#include "src/wire/control.h"

namespace byteps::protocol {

class SyncPoints {
 public:
  using Answers = std::vector<std::pair<uint64_t, wire::GoOn>>;  // to whom

  // `who` has come to the point that `sync` names. REQUIRES: it is one of this generation.
  Answers Reach(uint64_t who, const wire::Sync& sync);
  // A member of `generation` has passed so many points. `present` is the generation in force.
  Answers Pass(uint32_t generation, uint32_t count, uint32_t present);

  // All workers of the view wait, except those that are going or have left; and at least one does.
  bool AllWait(const wire::View& view, const Departures& departures) const;
  // Nobody waits to be let in: all may go on. REQUIRES: AllWait.
  Answers GoOn(uint32_t generation);

  void Forget(uint64_t who) { waiting_.erase(who); }
  void ForgetIf(const std::function<bool(uint64_t)>& stale);
  // A generation begins: nobody waits.
  void Begin() { waiting_.clear(); }

 private:
  struct Passed {
    uint32_t generation = 0;
    uint32_t count = 0;
    auto operator<=>(const Passed&) const = default;
  };

  std::map<uint64_t, uint32_t> waiting_;  // at which point
  Passed passed_;                         // as far as it is known
};

}  // namespace byteps::protocol
