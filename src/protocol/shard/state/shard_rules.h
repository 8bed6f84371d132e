// The decisions of a shard that keep any two members from getting different verdicts, and any two
// layouts from getting different sums. Each decision of the first kind is one function here, with
// the number of its rule in docs/membership.md. This class has the
// correct rules. Tests derive from it to show that a broken rule is noticed.
#pragma once

#include <cstdint>

#include "src/base/types.h"
#include "src/plan/ownership.h"

namespace byteps::protocol {

class Attendance;
class Members;
struct Piece;
class ProcessSet;
struct ToldVerdict;
class Verdict;

// Stateless.
class ShardRules {
 public:
  virtual ~ShardRules() = default;
  static const ShardRules& Default();

  // Rule 1: a message that names a newer epoch than the one in force waits for that view.
  virtual bool MustWait(uint64_t epoch, uint64_t in_force) const { return epoch > in_force; }

  // Rule 5: a member that is not in the view is cut off.
  virtual bool IsCutOff(bool in_view) const { return !in_view; }

  // Rule 6: a report of `epoch` about a piece with this owner counts for shard `self`.
  virtual bool Counts(const plan::Owner& owner, ShardId self, uint64_t epoch) const {
    return owner.shard == self && epoch >= owner.since;
  }
  // Rule 6: the knowledge that `self` had of the piece in `old_epoch` still counts.
  virtual bool Stays(const plan::Owner& owner, ShardId self, uint64_t old_epoch) const {
    return owner.shard == self && owner.since <= old_epoch;
  }

  // Rule 7: every member that takes part in the piece's round has pushed. A member that has the
  // verdict already would say so instead. REQUIRES: the piece has a round.
  virtual bool IsComplete(const Attendance& attendance, const Piece& piece) const;
  // Rule 7: a push for a decided round is answered with the verdict.
  virtual bool AnswersRepeats() const { return true; }

  // Rule 9: a verdict in hand wins over contributions to its round.
  virtual bool Adopts(Piece& piece, Slot from, const ToldVerdict& told) const;
  // Rule 9: contributions to a later round stay, because the members that made them hold the
  // verdict.
  virtual bool KeepsContributions(uint64_t round, uint64_t verdict_round) const {
    return round > verdict_round;
  }

  // Rule 10: an error may follow this verdict. The error proves nothing about the round before the
  // verdict. So that round must be stable or have ended in an error, too; then the two errors are
  // kept in a row.
  virtual bool ErrorMayFollow(const Verdict& before) const;
  // Rule 10: no member can hold a sum of a round that this shard has not decided, because all
  // members have said what they hold since the piece came here in epoch `since`.
  virtual bool NobodyHoldsASum(const Attendance& attendance, uint64_t since) const;

  // In the tree of a sum, a contributor stands at the place of this rank: its lowest in the set.
  // All its other ranks in the set would do as well where its ranks have a block of places.
  virtual uint32_t RankInSum(const ProcessSet& set, const Members& members, Slot slot) const;
};

}  // namespace byteps::protocol
