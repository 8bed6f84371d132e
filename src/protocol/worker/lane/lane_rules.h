// What a lane decides for the failure protocol. The numbers are those of docs/membership.md. Tests
// replace one rule by a wrong one and show that somebody notices; the library has these alone.
#pragma once

#include <cstdint>

#include "src/base/types.h"

namespace byteps::protocol {

class LaneRules {
 public:
  virtual ~LaneRules() = default;

  // 4, 5: an answer counts when both sides agree who owns the piece, and since when.
  virtual bool Counts(ShardId owner, uint64_t since, ShardId from, uint64_t epoch) const {
    return owner == from && epoch >= since;
  }
  // 5: the piece has another owner, or the same one anew.
  virtual bool HasMoved(ShardId before, ShardId owner, uint64_t since, uint64_t old_epoch) const {
    return owner != before || since > old_epoch;
  }
  // 1: what others may lack is kept when the memory goes back to the user.
  virtual bool KeepsVerdicts() const { return true; }
  // 2, 3, 9: it is told to whoever owns the piece now. `present`: it is of the round in progress.
  virtual bool TellsVerdict(bool /*present*/, bool /*reconnect*/) const { return true; }
  // 17: and so is what all members hold.
  virtual bool TellsWhatIsStable(bool /*reconnect*/) const { return true; }
  // 14: who holds what others may lack does not leave.
  virtual bool MayLeave(bool holds_unstable) const { return !holds_unstable; }
  // Recovery must pass the credit.
  virtual bool RepeatsPassCredit() const { return true; }
  // A piece that moves to another lane is this lane's no longer.
  virtual bool LetsGo() const { return true; }
  // A lane says that it has repeated all only when it has what comes from the other lanes.
  virtual bool WaitsForTakeOver() const { return true; }
};

inline const LaneRules kLaneRules;

}  // namespace byteps::protocol
