// Opens the rounds of pieces and ends them. A round ends with combined bytes when every member that
// takes part has pushed. It ends with an error when a member will never push, or has asked for one.
// Each round ends exactly once.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/status.h"
#include "src/protocol/shard/shard_options.h"
#include "src/protocol/shard/state/attendance.h"
#include "src/protocol/shard/state/combiner.h"
#include "src/protocol/shard/state/piece_table.h"
#include "src/protocol/shard/state/process_sets.h"
#include "src/protocol/shard/verdict_delivery.h"
#include "src/protocol/shard/wants.h"

namespace byteps::protocol {

// One thread at a time; steady state allocates nothing.
class Rounds {
 public:
  // The objects that this class works with. All of them must outlive this object.
  struct Parts {
    const ShardView& view;
    const Members& members;
    const Attendance& attendance;
    ProcessSets& sets;
    Combiner& combiner;
    VerdictDelivery& delivery;
    Wants& wants;
  };
  Rounds(const Parts& parts, const ShardOptions& options) : parts_(parts), options_(options) {}

  size_t open_count() const { return open_count_; }

  // Opens a round with its first push. If too many rounds are open, this round ends in an error as
  // soon as it may. kExhausted: too many rounds wait for that, too. REQUIRES: the piece has no
  // round.
  Status Open(Piece& piece, ProcessSet& set, const wire::DataHeader& header, Time now);
  // Ends the round without a verdict, if there is one.
  void Drop(Piece& piece);
  // Forgets all rounds, because a generation begins. The pieces are gone with their rounds.
  void Clear() { open_count_ = 0; }

  // Decides the piece's round if that is possible now, because something has changed. Does nothing
  // without a round.
  void DecideIfPossible(Piece& piece);

  // These do the same as in VerdictDelivery, because the state of the piece's verdict has changed.
  // They also decide an error that waited for the change.
  void NoteHolder(Piece& piece, Slot slot, uint64_t round);
  void NoteHolder(Piece& piece, Slot slot) { NoteHolder(piece, slot, piece.verdict.round()); }
  void Recount(Piece& piece);
  void Settle(Piece& piece);
  void NoteStable(Piece& piece, uint64_t round);

 private:
  void Tell(RoundMoment moment, const Round& round) const;
  Status TooMany() const;
  Status CheckCodec(const Round& round) const;
  bool MayEndInError(const Piece& piece) const;
  void Decide(Piece& piece);
  void DecideError(Piece& piece, const Status& why);
  void AnswerAll(Piece& piece);

  const Parts parts_;
  const ShardOptions options_;
  std::vector<std::unique_ptr<Round>> spare_;
  size_t open_count_ = 0;
  uint64_t begun_ = 0;
};

}  // namespace byteps::protocol
