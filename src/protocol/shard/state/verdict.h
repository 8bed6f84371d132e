// The end of a piece's last decided round, and the members that have it. It is kept until every
// member that needs it has it. It is combined bytes, an error, or only the news that the round is
// decided (empty).
//
// Errors in a row: a rank may be stopped in the middle of a step while the others give up again and
// again (a deadline, a name whose ranks disagree). Each of these rounds ends in an error. A sum may
// not follow a sum before every member has the first one. An error may follow an error, because no
// member would get anything else if it waited. So a piece keeps all errors that ended its rounds
// one directly after the other, each with its own reason. A rank that comes back late gets, for
// each of its operations, the error that the others got. A sum ends the row: all members have
// pushed for it, so all have seen the errors before. The verdict also knows which members hold an
// earlier error of the row. A rank that leaves after such an error never comes to hold the last
// error, and the shard need not wait for it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/base/types.h"
#include "src/protocol/shard/state/idle_members.h"
#include "src/protocol/shard/state/members.h"
#include "src/wire/error_row.h"

namespace byteps::protocol {

// The round that a verdict ends, and the properties of its bytes.
struct VerdictTerms {
  uint64_t round = 0;
  Combine combine = Combine::kSum;
  DataType dtype = DataType::kFloat32;
  uint32_t piece_bytes = 0;     // 0 in an error
  uint8_t codec = 0;            // codec of the bytes
  std::optional<uint32_t> set;  // number of the process set; none: another owner decided it
};

// One thread at a time. In steady state a verdict of bytes allocates nothing.
class Verdict {
 public:
  // Replaces the verdict by a new one. `receipt`: the members in it, which must come to hold it. No
  // member is known to hold it yet.
  void SetBytes(const VerdictTerms& terms, const Receipt& receipt, const Members& members,
                BufferRef buffer, uint32_t bytes);
  // Notes that the round is decided, and that every member that wants its bytes has them.
  void SetEmpty(const VerdictTerms& terms, const Receipt& receipt, const Members& members);
  // Adds one more error to the row.
  void AddError(const VerdictTerms& terms, const Receipt& receipt, const Members& members,
                const Status& why);
  void SetErrors(const VerdictTerms& terms, const Receipt& receipt, const Members& members,
                 wire::ErrorRow errors);
  // Notes that the round is decided and that every member has its verdict, whatever it was.
  void SetStable(uint64_t round);

  uint64_t round() const { return terms_.round; }  // the last decided round; 0: none yet
  const VerdictTerms& terms() const { return terms_; }
  bool IsError() const { return !errors_.empty(); }
  const wire::ErrorRow& errors() const { return errors_; }
  bool empty() const { return empty_; }
  // Returns the bytes as they travel. They are empty in an empty verdict and in errors.
  ConstByteSpan bytes() const { return {buffer_.data(), bytes_}; }
  const BufferRef& buffer() const { return buffer_; }
  const Receipt& receipt() const { return receipt_; }
  // Returns whether the verdict answers this round: its own round or, in a row of errors, an
  // earlier round of the row.
  bool Covers(uint64_t round) const;

  // Returns whether every member that needs the verdict holds it. Then nothing of it is kept.
  bool stable() const { return stable_; }
  // Returns whether the member is in the receipt, is served, and has not joined since. A member
  // that has joined has only the join open, so it has the verdict, or it never pushed.
  bool Needs(Slot slot, const Members& members) const;
  bool IsHeldBy(Slot slot) const { return held_.Contains(slot); }
  // Counts the members that need the verdict and are not known to hold it.
  uint32_t lacking() const { return lacking_; }
  // Returns whether every member that needs the verdict holds what ended this round: the verdict
  // or, in a row of errors, an earlier error.
  bool IsWithAll(uint64_t round, const Members& members) const;
  // Notes that the member holds the verdict. Returns false if it was known to hold it, or does not
  // need it.
  bool AddHolder(Slot slot, const Members& members);
  // Notes that the member holds the errors of the row up to this round, which is not the last one.
  void AddErrorHolder(Slot slot, uint64_t round);
  // Notes a holder before Recount counts the members that lack the verdict.
  void NoteHolder(Slot slot) { held_.Insert(slot); }
  // Counts again, because members have come, gone or joined.
  void Recount(const Members& members);
  void BecomeStable();

  // Returns the members that are answered later; null: there are none.
  IdleMembers* idle() const { return idle_.get(); }
  bool IsWaitedForBy(Slot slot) const;  // as an idle member
  IdleMembers& NeedIdle();
  std::unique_ptr<IdleMembers> TakeIdle() { return std::move(idle_); }

 private:
  void Begin(const VerdictTerms& terms, const Receipt& receipt, const Members& members);

  VerdictTerms terms_;
  wire::ErrorRow errors_;
  BufferRef buffer_;
  uint32_t bytes_ = 0;
  bool empty_ = false;
  bool stable_ = true;
  Receipt receipt_;
  SlotSet held_;
  std::vector<uint64_t> errors_held_;  // by slot: the last earlier error of the row, by round
  uint32_t lacking_ = 0;
  std::unique_ptr<IdleMembers> idle_;
};

}  // namespace byteps::protocol
