// Decides which contributors take part in a round: the contributors of its process set that are in
// the view. A contributor that has joined is exempt: the shard does not wait for it, and it is not
// in the receipt, but averages count it. docs/decisions/0011-rounds-of-some.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/status.h"
#include "src/protocol/shard/state/members.h"
#include "src/protocol/shard/state/piece_table.h"
#include "src/protocol/shard/state/shard_view.h"

namespace byteps::protocol {

// No state of its own. REQUIRES of all functions that take a piece: the piece has a round.
class Attendance {
 public:
  // Both must outlive this object.
  Attendance(const Members& members, const ShardView& view) : members_(members), view_(view) {}

  const Members& members() const { return members_; }
  const ShardView& view() const { return view_; }

  // Returns whether the contributor takes part. The shard waits for it, unless it is exempt.
  bool TakesPart(const ProcessSet& set, Slot slot) const {
    return members_.IsPresent(slot) && set.Includes(slot);
  }
  // Counts the contributors that take part and have not pushed.
  uint32_t CountMissing(const Round& round) const;
  // Returns whether a member that is in the view has pushed the round, or has begun to.
  bool AnyMemberIn(const Round& round) const;
  // Returns the name, for texts, of a member that has pushed the round, or has begun to.
  std::string PusherOf(const Round& round) const;

  // Returns whether any member may be exempt. The check is cheap, and false in all rounds of a job
  // in which no rank has joined, or all have.
  bool MayBeExempt(const Round& round) const;
  // Returns whether the contributor is exempt: all its ranks that are in the process set joined
  // before this round, and it holds no verdict of the round. The second part is certain when the
  // contributor has said all it holds since the piece came here. A join counts only for the member
  // that tells it.
  bool IsExempt(const Piece& piece, Slot slot) const;
  // Counts the exempt contributors that have not pushed.
  uint32_t ExemptCount(const Piece& piece) const;
  bool OnlyExemptMissing(const Piece& piece) const;
  // Returns whether the contributor has not pushed, and still can and must.
  bool IsWaitedFor(const Piece& piece, Slot slot) const;
  // Returns, for texts, the ranks that have not pushed: the exempt ranks if `exempt`, otherwise the
  // others.
  std::string MissingRanks(const Piece& piece, bool exempt) const;

  // Returns whether all served members have said what they hold since the piece came here in epoch
  // `since`.
  bool AllHaveSaid(uint64_t since) const;

  // Counts the ranks that speak through the contributions that are here, and through exempt
  // members.
  uint32_t DivisorOf(const Piece& piece) const;
  // Returns the members in the verdict: all members whose contributions are here.
  Receipt ReceiptOf(const Round& round) const;
  // Returns whether that is the whole process set of this view.
  bool IsWholeSet(const Round& round) const;
  // Returns the members that an error must reach.
  Receipt ConcernedBy(const Piece& piece) const;

  // Returns the error that the round must end with: a rank that left in order will never push, or a
  // member asked for an error.
  std::optional<Status> ErrorOf(const Piece& piece) const;
  // Returns an error if all contributions are here, but none brings the bytes: the root of a
  // broadcast has joined.
  std::optional<Status> NobodyBrings(const Piece& piece) const;

 private:
  bool IsMissing(const Round& round, Slot slot) const {
    return TakesPart(round.set(), slot) && !round.HasArrived(slot);
  }

  const Members& members_;
  const ShardView& view_;
};

}  // namespace byteps::protocol
