// The decisions of a lane for the failure protocol. The numbers are the numbers of the rules in
// docs/membership.md. Tests replace one rule by a wrong one and show that a check notices. The
// library has only these rules.
#pragma once

#include <cstdint>

#include "src/base/types.h"

namespace byteps::protocol {

class LaneRules {
 public:
  virtual ~LaneRules() = default;

  // Rules 4, 5: an answer counts if both sides agree which shard owns the piece, and since when.
  virtual bool Counts(ShardId owner, uint64_t since, ShardId from, uint64_t epoch) const {
    return owner == from && epoch >= since;
  }
  // Rule 5: the piece has another owner, or the same owner anew.
  virtual bool HasMoved(ShardId before, ShardId owner, uint64_t since, uint64_t old_epoch) const {
    return owner != before || since > old_epoch;
  }
  // Rule 1: the lane keeps a verdict that others may lack when the memory goes back to the user.
  virtual bool KeepsVerdicts() const { return true; }
  // Rules 2, 3, 9: the lane tells that verdict to the shard that owns the piece now. `present`: the
  // verdict is of the round in progress.
  virtual bool TellsVerdict(bool /*present*/, bool /*reconnect*/) const { return true; }
  // Rule 17: the lane also tells the verdicts that all members hold.
  virtual bool TellsWhatIsStable(bool /*reconnect*/) const { return true; }
  // Rule 14: a worker that holds a verdict that others may lack does not leave.
  virtual bool MayLeave(bool holds_unstable) const { return !holds_unstable; }
  // Repeated pushes pass the credit, so that recovery does not wait for it.
  virtual bool RepeatsPassCredit() const { return true; }
  // A piece that moves to another lane no longer belongs to this lane.
  virtual bool LetsGo() const { return true; }
  // A lane says that it has repeated everything only when it has the pieces that come from other
  // lanes.
  virtual bool WaitsForTakeOver() const { return true; }
};

inline const LaneRules kLaneRules;

}  // namespace byteps::protocol
