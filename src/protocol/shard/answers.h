// The shard's answers to its members. Each answer has a number on its connection. The member
// acknowledges the answer by this number. By the same number it is told that every member has the
// answer's verdict.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/time.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/shard/shard_driver.h"
#include "src/protocol/shard/state/numbered_answers.h"
#include "src/protocol/shard/state/piece_table.h"
#include "src/protocol/shard/state/shard_facts.h"

namespace byteps::protocol {

// The part of a verdict's bytes that goes to a member.
struct Portion {
  uint32_t offset = 0;
  uint32_t bytes = 0;
  int32_t priority = 0;
};

// One thread at a time; steady state allocates nothing.
class Answers {
 public:
  // `stable_after`: how long news of stability waits for an answer that could carry it. All others
  // must outlive this object.
  Answers(BufferPool& pool, Arithmetic& arithmetic, ShardDriver& driver, const ShardFacts& facts,
          Duration stable_after)
      : pool_(pool),
        arithmetic_(arithmetic),
        driver_(driver),
        facts_(facts),
        stable_after_(stable_after) {}

  // Sets the slots of the generation. `begins`: no member has been answered yet.
  void SetSlots(Slot slots, bool begins);

  // Sends a portion of the bytes of the piece's verdict. REQUIRES: the verdict has these bytes;
  // with a codec it is all of them or none.
  void Send(const Piece& piece, const wire::PieceRef& ref, Slot to, const Portion& portion);
  // Sends the errors up to that round. A member that holds the last error of the row can tell all
  // of them to another owner. REQUIRES: the verdict is an error and covers the round.
  void SendError(const Piece& piece, const wire::PieceRef& ref, Slot to, int32_t priority);
  // Answers a member that has told a verdict. The answer has the number by which the member will be
  // told that the verdict is stable.
  void Confirm(const Piece& piece, const wire::PieceRef& ref, Slot to);

  // Returns the oldest answer to `from` that its acknowledgement of `number` acknowledges and that
  // was not returned yet. A number that was never sent counts as the last number that had been sent
  // at the first call.
  std::optional<Answered> NextAcknowledged(Slot from, uint64_t number) {
    return sent_[from].NextAcknowledged(number);
  }
  uint64_t sent(Slot to) const { return sent_[to].sent(); }
  // Returns whether `to` has been answered on this connection about this round. It may not know
  // then that the round is stable.
  bool HasAnswered(Slot to, const wire::PieceRef& ref) { return sent_[to].Keeps(ref); }
  // Returns whether an answer with the piece's verdict has left for `to`, which may not have read
  // it.
  bool IsUnderWay(const Piece& piece, Slot to) {
    return sent_[to].KeepsAny([&](const Answered& answered) {
      const wire::PieceRef& ref = answered.ref;
      return ref.tensor == piece.tensor && ref.piece == piece.index &&
             answered.since == piece.since && piece.verdict.Covers(ref.round);
    });
  }
  // Forgets the answers of a connection that is gone. The next connection counts from 1 again.
  void ForgetConnection(Slot from) { sent_[from].Restart(); }

  // Notes that a verdict has become stable, which some member may not know.
  void NoteStable();
  // Returns when Tick has something to do next.
  std::optional<Time> due() const { return due_; }
  void Tick(Time now);

 private:
  bool IsStable(const Answered& answered) const;
  uint64_t StableCount(Slot to);
  bool IsEverybody(const Verdict& verdict) const;
  void Number(const Piece& piece, Slot to, wire::DataHeader& header);
  void SendWithReceipt(const Verdict& verdict, Slot to, wire::DataHeader& header,
                       ConstByteSpan bytes, const BufferRef& keep);

  BufferPool& pool_;
  Arithmetic& arithmetic_;
  ShardDriver& driver_;
  const ShardFacts& facts_;
  const Duration stable_after_;
  std::vector<NumberedAnswers> sent_;  // by slot
  std::optional<Time> due_;
};

}  // namespace byteps::protocol
