// The shard's answers to its members: each has a number on its connection, by which the member
// acknowledges it and is told that its verdict is with everybody.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/time.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/shard/shard_driver.h"
#include "src/protocol/shard/state/members.h"
#include "src/protocol/shard/state/numbered_answers.h"
#include "src/protocol/shard/state/piece_table.h"
#include "src/protocol/shard/state/process_sets.h"
#include "src/protocol/shard/state/shard_view.h"

namespace byteps::protocol {

// What of a verdict goes to whom.
struct Portion {
  uint32_t offset = 0;
  uint32_t bytes = 0;
  int32_t priority = 0;
};

// One thread at a time; steady state allocates nothing.
class Answers {
 public:
  // What it works with; all of it outlives this.
  struct Parts {
    BufferPool& pool;
    Arithmetic& arithmetic;
    ShardDriver& driver;
    const ShardView& view;
    const Members& members;
    const ProcessSets& sets;
    const PieceTable& pieces;
  };
  // `stable_after`: how long news of stability waits for an answer that could carry it.
  Answers(const Parts& parts, Duration stable_after) : parts_(parts), stable_after_(stable_after) {}

  // The slots of the generation; `begins`: nobody has been answered yet.
  void SetSlots(Slot slots, bool begins);

  // A portion of the bytes of the piece's verdict. REQUIRES: they are in it; with a codec it is all
  // or nothing.
  void Send(const Piece& piece, const wire::PieceRef& ref, Slot to, const Portion& portion);
  // The errors up to that round: whoever holds its last one can tell all to another owner.
  // REQUIRES: the verdict is an error and covers the round.
  void SendError(const Piece& piece, const wire::PieceRef& ref, Slot to, int32_t priority);
  // Tells who has told a verdict under which number its stability will be told.
  void Confirm(const Piece& piece, const wire::PieceRef& ref, Slot to);

  // What the next answer to `from` was about that its acknowledgement of `number` stands for.
  // More than was ever sent counts as all that had been sent by the first call.
  std::optional<Answered> NextAcknowledged(Slot from, uint64_t number) {
    return sent_[from].NextAcknowledged(number);
  }
  uint64_t sent(Slot to) const { return sent_[to].sent(); }
  // `to` has been answered on this connection about this round, which it may not know to be stable.
  bool HasAnswered(Slot to, const wire::PieceRef& ref) { return sent_[to].Keeps(ref); }
  // An answer with the piece's verdict has left for `to`, which may not have read it.
  bool IsUnderWay(const Piece& piece, Slot to) {
    return sent_[to].KeepsAny([&](const Answered& answered) {
      const wire::PieceRef& ref = answered.ref;
      return ref.tensor == piece.tensor && ref.piece == piece.index &&
             answered.since == piece.since && piece.verdict.Covers(ref.round);
    });
  }
  // The connection is gone; answers are counted from 1 again.
  void ForgetConnection(Slot from) { sent_[from].Restart(); }

  // Something has become stable, which some member may not know.
  void NoteStable(Time now);
  // When Tick has something to do next.
  std::optional<Time> due() const { return due_; }
  void Tick(Time now);

 private:
  bool IsStable(const Answered& answered) const;
  uint64_t StableCount(Slot to);
  bool IsEverybody(const Verdict& verdict) const;
  void Number(const Piece& piece, Slot to, wire::DataHeader& header);
  void SendWithReceipt(const Verdict& verdict, Slot to, wire::DataHeader& header,
                       ConstByteSpan bytes, const BufferRef& keep);

  const Parts parts_;
  const Duration stable_after_;
  std::vector<NumberedAnswers> sent_;  // by slot
  std::optional<Time> due_;
};

}  // namespace byteps::protocol
