// Shard: the owner of pieces. Collects the contributions to a piece's round, combines them in slot
// order when the last one is in, and answers every member. Whatever happens to members and to other
// shards, a round ends in one verdict: docs/membership.md has the rules.
//
// There is one kind of round for all operations: each member pushes a span of the piece (perhaps an
// empty one) and says which span of the verdict it wants; the contributions are reduced or
// overlaid; every member is answered. Who wants nothing is answered when all who want bytes are
// known to have them: then it may forget what it pushed. A round belongs to a process set; the
// others, and members that have joined, take no part in it. A shard knows no tensors' names, shapes
// or users. To a shard a member is a contributor: one process, or several that one speaks for.
//
// This class puts the parts together and decides which frame goes where, and which must wait. The
// parts: who is there (members.h, process_sets.h, attendance.h), what is known of a piece
// (piece_table.h, round.h, verdict.h), what ends a round (rounds.h, combiner.h) and what drops it
// (piece_review.h), what leaves
// (answers.h, verdict_delivery.h, wants.h), what comes in (pushes.h, told_verdicts.h,
// member_reports.h, intake.h, postponed_frames.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/base/time.h"
#include "src/protocol/arithmetic.h"
#include "src/protocol/shard/member_reports.h"
#include "src/protocol/shard/piece_review.h"
#include "src/protocol/shard/postponed_frames.h"
#include "src/protocol/shard/pushes.h"
#include "src/protocol/shard/shard_driver.h"
#include "src/protocol/shard/shard_options.h"
#include "src/protocol/shard/told_verdicts.h"

namespace byteps::protocol {

// No I/O, no clock, no thread: one driver calls it, from one thread. Payloads are received straight
// into the places that OnPushHeader names. Buffers of `pool` must not outlive it.
class Shard {
 public:
  Shard(const ShardOptions& options, BufferPool& pool, Arithmetic& arithmetic, ShardDriver& driver);

  // A view is in force; `self` is this shard. One that begins a generation clears everything.
  // Otherwise contributions of workers that are gone stay if they are whole, pieces that belong to
  // others now are dropped, and what is complete by the new view is decided.
  // REQUIRES: connections of workers that are not in it are closed; nothing comes from them.
  void OnView(const wire::View& view, ShardId self);

  // The header of a push or a verdict, as wire::DecodeDataHeader lets it through: returns where its
  // payload goes, valid until OnPayload or OnLost of the same slot. A piece may miss rounds of its
  // tensor (results of allgather differ in length); a round that began ends before the next one.
  // What belongs to a newer view is postponed, and so is what comes behind it.
  // kProtocol: no correct worker of this view sends that; kExhausted: twice too many rounds are
  // open, or CheckPostponed. Close the connection on both.
  Result<ByteSpan> OnPushHeader(Slot from, const wire::DataHeader& header, size_t payload_bytes,
                                Time now);
  Result<ByteSpan> OnVerdictHeader(Slot from, const wire::DataHeader& header, size_t payload_bytes,
                                   Time now);
  // The payload of the last header from `from` is complete.
  void OnPayload(Slot from);
  // After each other frame. kExhausted: too much of `from` waits for a view. Close the connection:
  // on its next one it says all again.
  Status CheckPostponed(Slot from) const;
  // All answers up to number `count` have reached `from`, which is in the view of `epoch`.
  void OnAck(Slot from, const wire::Progress& ack, Time now);
  // `from` holds these verdicts, and all members do.
  void OnHave(Slot from, uint64_t epoch, const std::vector<wire::HeldPiece>& pieces);
  // `from` has said all it holds of pieces that this shard owns since `epoch` or earlier.
  void OnResync(Slot from, uint64_t epoch);
  // The ranks of a process set, before the first push for it on this connection; 0 is everybody and
  // is never told. An empty bitmap: `from` has removed it, and pushes nothing more for it. What
  // nobody needs is forgotten; who comes to need it tells it first, as on any connection.
  // kProtocol: another member has told of other ones. Close the connection.
  Status OnGroup(Slot from, const wire::Progress& number, ConstByteSpan bitmap);
  // `from` has no operation open and takes no part in rounds until its join with this number, from
  // 1, is over.
  // `bitmap`: those of its ranks that have; empty: all.
  void OnJoined(Slot from, const wire::Progress& number, ConstByteSpan bitmap = {});
  // `from` asks that the round ends in an error; `push` is the header of the push that it stands
  // for. It opens the round if there is none, counts as having pushed, and is answered.
  // kProtocol, kExhausted: as of a push. Close the connection.
  Status OnAbort(Slot from, const wire::DataHeader& push, const std::string& why);
  // The connection is gone, or another one takes its place; a contribution that was not complete is
  // dropped. Answers are counted from 1 again.
  void OnLost(Slot from);
  // The ranks disagree in this use about the name of the tensors: its rounds are dropped, and late
  // pushes of them ignored. Earlier rounds end as always.
  void Retire(const std::vector<TensorId>& tensors, uint64_t use) { review_.Retire(tensors, use); }
  // All ranks have let go of these tensors, and push nothing of them any more.
  void OnForgotten(const std::vector<TensorId>& tensors) { review_.OnForgotten(tensors); }
  // All that is known of those that nobody else knows is dropped; nobody is left who could push
  // them.
  void OnStillKnown(const wire::StillKnown& known) { review_.OnStillKnown(known); }

  // REQUIRES: now >= NextTick(). Asks for missing contributions, tells of stability.
  void OnTick(Time now);
  // When OnTick has something to do next.
  std::optional<Time> NextTick();

  // Pieces with a round in progress, and with a verdict that somebody may still lack.
  size_t open_rounds() const { return rounds_.open_count(); }
  size_t unstable_verdicts() const { return pieces_.unstable_count(); }
  size_t process_sets() const { return sets_.size(); }

 private:
  void SetTime(Time now);
  Result<ByteSpan> OnData(Slot from, wire::FrameKind kind, const wire::DataHeader& header,
                          size_t payload_bytes, Time now);
  Status CheckSender(Slot from, const wire::DataHeader& header) const;
  Status Place(Slot from, wire::FrameKind kind, Incoming& incoming);
  void TakeData(Slot from, const Incoming& incoming);
  void Replay(Slot from);
  Status TakePostponed(Slot from, const PostponedFrame& frame);

  const ShardOptions options_;
  BufferPool& pool_;
  Arithmetic& arithmetic_;
  // Each uses those above it.
  ShardView view_;
  Members members_;
  ProcessSets sets_;
  PieceTable pieces_;
  Attendance attendance_;
  Answers answers_;
  VerdictDelivery delivery_;
  Combiner combiner_;
  Wants wants_;
  Rounds rounds_;
  PieceReview review_;
  Pushes pushes_;
  ToldVerdicts told_;
  MemberReports reports_;
  Intake intake_;
  PostponedFrames postponed_;
  Time now_{};  // of the last call that told it
};

}  // namespace byteps::protocol
