// The workers that wait at a sync point, and the sync points of the generation that everybody has
// passed (docs/membership.md, rule 13). Workers are let in only where all others wait.
//
// A worker that has passed a point proves that every other worker may pass it. A worker that asks
// again has missed the answer, and perhaps no other worker ever comes to that point.
//
// A value without I/O; workers are known by incarnation.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "src/protocol/control/members/departures.h"
#include "src/wire/membership.h"
#include "src/wire/view.h"

namespace byteps::protocol {

class SyncPoints {
 public:
  using Answers =
      std::vector<std::pair<uint64_t, wire::GoOn>>;  // each to the worker with this incarnation

  // Notes that `who` has come to the point that `sync` names. REQUIRES: the point is one of this
  // generation.
  Answers Reach(uint64_t who, const wire::Sync& sync);
  // Notes that a member of `generation` has passed `count` points. `present` is the generation in
  // force.
  Answers Pass(uint32_t generation, uint32_t count, uint32_t present);

  // Returns whether all workers of the view wait, except those that go or have left. Returns false
  // if none waits.
  bool AllWait(const wire::View& view, const Departures& departures) const;
  // Lets all workers go on, because nobody waits to be let in. REQUIRES: AllWait.
  Answers GoOn(uint32_t generation);

  void Forget(uint64_t who) { waiting_.erase(who); }
  void ForgetIf(const std::function<bool(uint64_t)>& stale);
  // Forgets the waiting workers, because a generation begins.
  void Begin() { waiting_.clear(); }

 private:
  struct Passed {
    uint32_t generation = 0;
    uint32_t count = 0;
    auto operator<=>(const Passed&) const = default;
  };

  std::map<uint64_t, uint32_t> waiting_;  // the point at which a worker waits, by incarnation
  Passed passed_;                         // the latest point that the coordinator has heard of
};

}  // namespace byteps::protocol
