// Who takes part in a round: the contributors of its process set that are in the view. Of them,
// those that have joined are exempt: not waited for, not in the receipt, but counted by averages.
// docs/decisions/0011-rounds-of-some.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/status.h"
#include "src/protocol/shard/state/members.h"
#include "src/protocol/shard/state/piece_table.h"
#include "src/protocol/shard/state/shard_view.h"

namespace byteps::protocol {

// No state of its own. REQUIRES of all that take a piece: it has a round.
class Attendance {
 public:
  // Both outlive it.
  Attendance(const Members& members, const ShardView& view) : members_(members), view_(view) {}

  const Members& members() const { return members_; }
  const ShardView& view() const { return view_; }

  // It is waited for, unless it is exempt.
  bool TakesPart(const ProcessSet& set, Slot slot) const {
    return members_.IsPresent(slot) && set.Includes(slot);
  }
  // So many take part and have not pushed.
  uint32_t CountMissing(const Round& round) const;
  // A member that is in the view has pushed, or is about to.
  bool AnyMemberIn(const Round& round) const;
  // For texts: somebody who has pushed the round, or is about to.
  std::string PusherOf(const Round& round) const;

  // Cheap: false in all rounds of jobs in which nobody has joined or all have.
  bool MayBeExempt(const Round& round) const;
  // All its ranks that are in the process set joined before this round, and so holds no verdict of
  // it: that is certain when it has said all it holds since the piece came here. What others say of
  // their joins counts for them alone.
  bool IsExempt(const Piece& piece, Slot slot) const;
  // Those that are exempt and have not pushed.
  uint32_t ExemptCount(const Piece& piece) const;
  bool OnlyExemptMissing(const Piece& piece) const;
  // It has not pushed, and still can and must.
  bool IsWaitedFor(const Piece& piece, Slot slot) const;
  // The ranks of those who have not pushed, for texts; of those who need not, or of the others.
  std::string MissingRanks(const Piece& piece, bool exempt) const;

  // All who are served have said what they hold since the piece came here in epoch `since`.
  bool AllHaveSaid(uint64_t since) const;

  // How many ranks speak through the contributions that are here, and through exempt members.
  uint32_t DivisorOf(const Piece& piece) const;
  // Who is in the verdict: all whose contributions are here.
  Receipt ReceiptOf(const Round& round) const;
  // It is the whole process set of this view.
  bool IsWholeSet(const Round& round) const;
  // Whom an error must reach.
  Receipt ConcernedBy(const Piece& piece) const;

  // The error that the round must end with: a rank that left in order will never push, or somebody
  // asked for it.
  std::optional<Status> ErrorOf(const Piece& piece) const;
  // Everybody is here, but nobody brings the bytes: a broadcast from a rank that has joined.
  std::optional<Status> NobodyBrings(const Piece& piece) const;

 private:
  bool IsMissing(const Round& round, Slot slot) const {
    return TakesPart(round.set(), slot) && !round.HasArrived(slot);
  }

  const Members& members_;
  const ShardView& view_;
};

}  // namespace byteps::protocol
