// Opens the rounds of pieces, ends them, and brings each verdict to the members that wait for it. A
// round ends with combined bytes when every member that takes part has pushed. It ends with an
// error when a member will never push, or has asked for one. Each round ends exactly once.
//
// A member that wants nothing of a verdict is answered after the members that want its bytes
// (state/idle_members.h). When every member has the verdict, it is stable. An error of the next
// round may have waited for that.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/status.h"
#include "src/protocol/shard/answers.h"
#include "src/protocol/shard/shard_options.h"
#include "src/protocol/shard/state/combiner.h"
#include "src/protocol/shard/state/shard_facts.h"
#include "src/protocol/shard/wants.h"

namespace byteps::protocol {

// One thread at a time; steady state allocates nothing.
class Rounds {
 public:
  // All arguments must outlive this object.
  Rounds(ShardFacts& facts, Answers& answers, Combiner& combiner, Wants& wants,
         const ShardOptions& options)
      : facts_(facts), answers_(answers), combiner_(combiner), wants_(wants), options_(options) {}

  size_t open_count() const { return open_count_; }

  // Opens a round with its first push. If too many rounds are open, this round ends in an error as
  // soon as it may. kExhausted: too many rounds wait for that, too. REQUIRES: the piece has no
  // round.
  Status Open(Piece& piece, ProcessSet& set, const wire::DataHeader& header);
  // Ends the round without a verdict, if there is one.
  void Drop(Piece& piece);
  // Ends the round, because another owner has decided it or a later one. Answers every member that
  // has pushed the round, if the piece's verdict covers it. REQUIRES: the piece has a round, and
  // its verdict is adopted.
  void EndAdopted(Piece& piece);
  // Drops the round and the verdict, because no member needs the piece any more. Idle members are
  // answered now, and a member that told the verdict need not keep it.
  void Forget(Piece& piece);
  // Forgets all rounds, because a generation begins. The pieces are gone with their rounds.
  void Clear() { open_count_ = 0; }

  // Decides the piece's round if that is possible now, because something has changed. Does nothing
  // without a round.
  void DecideIfPossible(Piece& piece);

  // Answers `slot`, which pushed `ref`, at once, or when the members that want bytes have them.
  // REQUIRES: the piece's verdict covers `ref`.
  void Answer(Piece& piece, const wire::PieceRef& ref, Slot slot, const Contribution& pushed);

  // After each of the next four the verdict is stable if every member that needs it holds it. If it
  // has become stable by the call, an error that has waited for this is decided, too.
  // NoteHolder notes that `slot` holds what ended `round`. REQUIRES: the verdict covers `round`,
  // and is not stable.
  void NoteHolder(Piece& piece, Slot slot, uint64_t round);
  void NoteHolder(Piece& piece, Slot slot) { NoteHolder(piece, slot, piece.verdict.round()); }
  // Counts again, because members have come, gone or joined. REQUIRES: the verdict is not stable.
  void Recount(Piece& piece);
  // Handles a verdict that has been set, after the members that wait for it were answered.
  void Settle(Piece& piece);
  // Notes that another member says that every member holds the verdict of `round`.
  void NoteStable(Piece& piece, uint64_t round);

 private:
  void Tell(RoundMoment moment, const Round& round) const;
  Status TooMany() const;
  Status CheckCodec(const Round& round) const;
  Status CheckSums(const Round& round) const;
  bool MayEndInError(const Piece& piece) const;
  void Decide(Piece& piece);
  void DecideError(Piece& piece, const Status& why);
  void End(Piece& piece);

  void AnswerAll(Piece& piece);
  void AnswerIdleIfDue(Piece& piece);
  void AnswerIdleNow(Piece& piece);
  void BecomeStable(Piece& piece);

  ShardFacts& facts_;
  Answers& answers_;
  Combiner& combiner_;
  Wants& wants_;
  const ShardOptions& options_;
  std::vector<std::unique_ptr<Round>> spare_;
  size_t open_count_ = 0;
  uint64_t begun_ = 0;
};

}  // namespace byteps::protocol
