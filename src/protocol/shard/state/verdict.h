// What a piece's last decided round ended with, kept until every member that is concerned has it,
// and who has it. Combined bytes, or an error, or only the word that it is decided (empty).
//
// Errors in a row: a rank may be stopped in the middle of a step while the others give up again and
// again (a deadline, a name whose ranks disagree). Each of their rounds ends in an error. A sum may
// not follow a sum before everybody has the first one, but an error may follow an error: nobody
// would get anything else if it waited. So a piece keeps all errors that ended its rounds one after
// the other, each with its own reason, and the rank that comes back late is told for each of its
// operations what the others were told. A sum ends the row: that all have pushed it proves that all
// have seen the errors before. Who holds an earlier error of the row is known, too: a rank that
// leaves after that one never comes to hold the last, and need not wait for it.
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

// What a verdict is about.
struct VerdictTerms {
  uint64_t round = 0;
  Combine combine = Combine::kSum;
  DataType dtype = DataType::kFloat32;
  uint32_t piece_bytes = 0;     // of an error: 0
  uint8_t codec = 0;            // of the bytes
  std::optional<uint32_t> set;  // the process set's number; none: another owner decided it
};

// One thread at a time; bytes allocate nothing in steady state.
class Verdict {
 public:
  // A new verdict takes the place of the one before. `receipt`: who is in it, and so must come to
  // hold it; nobody is known to yet.
  void SetBytes(const VerdictTerms& terms, const Receipt& receipt, const Members& members,
                BufferRef buffer, uint32_t bytes);
  // It is decided, and all who want its bytes have them.
  void SetEmpty(const VerdictTerms& terms, const Receipt& receipt, const Members& members);
  // One more error of a row.
  void AddError(const VerdictTerms& terms, const Receipt& receipt, const Members& members,
                const Status& why);
  void SetErrors(const VerdictTerms& terms, const Receipt& receipt, const Members& members,
                 wire::ErrorRow errors);
  // The round is decided and everybody has its verdict, whatever it was.
  void SetStable(uint64_t round);

  uint64_t round() const { return terms_.round; }  // the last decided one; 0: none yet
  const VerdictTerms& terms() const { return terms_; }
  bool IsError() const { return !errors_.empty(); }
  const wire::ErrorRow& errors() const { return errors_; }
  bool empty() const { return empty_; }
  // As they travel; of an empty one and of errors: none.
  ConstByteSpan bytes() const { return {buffer_.data(), bytes_}; }
  const BufferRef& buffer() const { return buffer_; }
  const Receipt& receipt() const { return receipt_; }
  // It answers this round: its own and, of errors, those before it in the row.
  bool Covers(uint64_t round) const;

  // Everybody concerned holds it; nothing of it is kept.
  bool stable() const { return stable_; }
  // Who is in the receipt, is served, and has not joined since: who has joined has only the join
  // open, so it has the verdict, or never pushed.
  bool Needs(Slot slot, const Members& members) const;
  bool IsHeldBy(Slot slot) const { return held_.Contains(slot); }
  // So many need it and are not known to hold it.
  uint32_t lacking() const { return lacking_; }
  // All who need it hold what ended this round: itself or, of errors, one before it in the row.
  bool IsWithAll(uint64_t round, const Members& members) const;
  // False when `slot` was known to hold it, or does not need it.
  bool AddHolder(Slot slot, const Members& members);
  // It holds the errors of the row up to this round, which is not the last one.
  void AddErrorHolder(Slot slot, uint64_t round);
  // Who holds it is known before it is counted who lacks it.
  void NoteHolder(Slot slot) { held_.Insert(slot); }
  // Members have come, gone or joined.
  void Recount(const Members& members);
  void BecomeStable();

  // Members that are answered later. Null: there are none.
  IdleMembers* idle() const { return idle_.get(); }
  bool IsWaitedForBy(Slot slot) const;  // it is one of them
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
  std::vector<uint64_t> errors_held_;  // by slot: of a row, up to this one before its last
  uint32_t lacking_ = 0;
  std::unique_ptr<IdleMembers> idle_;
};

}  // namespace byteps::protocol
