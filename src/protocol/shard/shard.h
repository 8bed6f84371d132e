// Shard: the owner of pieces. It collects the contributions to a piece's round, combines them in
// the tree over the ranks when the last one is in, and answers every member. Whatever happens to
// members and to other shards, a round ends in one verdict; docs/membership.md has the rules.
//
// There is one kind of round for all operations. Each member pushes a span of the piece (perhaps an
// empty one) and says which span of the verdict it wants. The shard reduces or overlays the
// contributions, and answers every member. A member that wants nothing is answered when all members
// that want bytes are known to have them; then it may forget what it pushed. A round belongs to a
// process set. Members outside the set, and members that have joined, take no part in it. A shard
// knows no tensors' names, shapes or users. To a shard a member is a contributor: one process, or
// several processes that one speaks for.
//
// This class owns the state (shard_state.h): what the shard knows of the view, the members and the
// pieces (state/shard_facts.h), and the parts that end rounds (rounds.h) and send (answers.h,
// wants.h). The class decides which frame must wait (postponed_frames.h), and which function over
// the state takes a frame: those of contributions.h, told_verdicts.h and member_reports.h. The
// functions of piece_review.h look at the pieces again after a view.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/base/time.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/shard/intake.h"
#include "src/protocol/shard/postponed_frames.h"
#include "src/protocol/shard/shard_driver.h"
#include "src/protocol/shard/shard_options.h"
#include "src/protocol/shard/shard_state.h"
#include "src/wire/names.h"

namespace byteps::protocol {

// No I/O, no clock, no thread: one driver calls it, from one thread. Payloads are received straight
// into the places that OnDataHeader returns. Buffers of `pool` must not outlive the shard.
class Shard {
 public:
  Shard(const ShardOptions& options, BufferPool& pool, Arithmetic& arithmetic, ShardDriver& driver);

  // Takes a view; `self` is this shard. A view that begins a generation clears everything.
  // Otherwise whole contributions of workers that are gone stay, pieces that belong to other shards
  // now are dropped, and each round that is complete in the new view is decided. REQUIRES: the
  // connections of workers that are not in the view are closed; nothing comes from them.
  void OnView(const wire::View& view, ShardId self);

  // Takes the header of a push or a verdict that wire::DecodeDataHeader has accepted. Returns where
  // its payload goes; the place is valid until OnPayload or OnLost of the same slot. A piece may
  // miss rounds of its tensor (results of allgather differ in length). A round that began ends
  // before the next one. A frame that belongs to a newer view is postponed, and so are the frames
  // behind it. kProtocol: a correct worker of this view never sends this. kExhausted: twice too
  // many rounds are open, or too much of `from` waits for a view. The caller closes the connection
  // on both errors. REQUIRES: `kind` is kPush or kVerdict.
  Result<ByteSpan> OnDataHeader(Slot from, wire::FrameKind kind, const wire::DataHeader& header,
                                size_t payload_bytes, Time now);
  // Takes the last push or verdict of `from`, because its payload is complete.
  void OnPayload(Slot from);
  // Takes any other frame of `from`, or postpones it if its view is not here yet. kProtocol: a
  // correct worker of this view never sends this. kExhausted: too many rounds are open, or too much
  // of `from` waits for a view; on its next connection the member says everything again. The caller
  // closes the connection on both errors.
  Status OnFrame(Slot from, wire::Frame frame, Time now);
  // Takes note that the connection is gone, or that another one takes its place. Drops a
  // contribution that was not complete. Answers count from 1 again.
  void OnLost(Slot from);
  // Drops the rounds of this use of the tensors, because the ranks disagree in this use about their
  // name. Late pushes for these rounds are ignored. Earlier rounds end as always.
  void Retire(const std::vector<TensorId>& tensors, uint64_t use);
  // Forgets these tensors. All ranks have let go of them, and push nothing for them any more.
  void OnForgotten(const std::vector<TensorId>& tensors);
  // Drops everything about the tensors in the range that no member knows. No member is left that
  // could push them.
  void OnStillKnown(const wire::StillKnown& known);

  // Asks for missing contributions, and tells of stability. REQUIRES: now >= NextTick().
  void OnTick(Time now);
  // Returns when OnTick has something to do next.
  std::optional<Time> NextTick();

  // open_rounds counts the pieces with a round in progress, unstable_verdicts the pieces with a
  // verdict that a member may still lack.
  size_t open_rounds() const { return state_.rounds.open_count(); }
  size_t unstable_verdicts() const { return state_.facts.pieces.unstable_count(); }
  size_t process_sets() const { return state_.facts.sets.size(); }

 private:
  struct Taker;
  void SetTime(Time now);
  Status CheckSender(Slot from, const wire::DataHeader& header) const;
  Status Place(Slot from, wire::FrameKind kind, Incoming& incoming);
  void TakeData(Slot from, const Incoming& incoming);
  Status Take(Slot from, const wire::Frame& frame);
  void Replay(Slot from);
  Status TakePostponed(Slot from, const PostponedFrame& frame);

  ShardState state_;
  Intake intake_;
  PostponedFrames postponed_;
};

}  // namespace byteps::protocol
