#include "src/protocol/shard/shard.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/protocol/shard/contributions.h"
#include "src/protocol/shard/member_reports.h"
#include "src/protocol/shard/piece_review.h"
#include "src/protocol/shard/told_verdicts.h"

namespace byteps::protocol {

Shard::Shard(const ShardOptions& options, BufferPool& pool, Arithmetic& arithmetic,
             ShardDriver& driver)
    : state_(options, pool, arithmetic, driver),
      postponed_(options, state_.facts.view, state_.facts.members) {}

void Shard::SetTime(Time now) { state_.facts.now = std::max(state_.facts.now, now); }

void Shard::OnView(const wire::View& view, ShardId self) {
  ShardState::ViewChange change = state_.SetView(view, self);
  const Members& members = state_.facts.members;
  intake_.SetSlots(members.size(), change.begins);
  postponed_.OnView();
  for (Slot slot : change.gone) {
    if (state_.options.rules->IsCutOff(false)) OnLost(slot);
  }
  if (!change.begins) ReviewPieces(state_, change.old_epoch);
  for (Slot slot = 0; slot < members.size(); ++slot) Replay(slot);
  ReviewRetired(state_);
}

Status Shard::CheckSender(Slot from, const wire::DataHeader& header) const {
  auto wrong = [](const std::string& what) {
    return Status(StatusCode::kProtocol, "push refused: " + what);
  };
  const Members& members = state_.facts.members;
  if (from >= members.size() || state_.options.rules->IsCutOff(members.IsPresent(from))) {
    return wrong(members.NameOf(from) + " is not in the view");
  }
  if (intake_.IsReceiving(from)) return wrong("a push began inside another one");
  if (header.piece_bytes > state_.options.piece_bytes_max) return wrong("the piece is too large");
  if (header.ref.round == 0) return wrong("rounds count from 1");
  if (!state_.facts.view.IsShard(header.home)) return wrong("its home is no shard of the view");
  return Status::Ok();
}

Result<ByteSpan> Shard::OnDataHeader(Slot from, wire::FrameKind kind,
                                     const wire::DataHeader& header, size_t payload_bytes,
                                     Time now) {
  Status checked = CheckSender(from, header);
  if (!checked.ok()) return checked;
  SetTime(now);
  Incoming& incoming = intake_.Next(from);
  incoming.header = header;
  incoming.payload_bytes = payload_bytes;
  if (postponed_.MustWait(from, header.epoch)) {
    checked = postponed_.AddData(from, kind, incoming, state_.pool);
  } else {
    TakeAck(state_, from, header.count);
    checked = Place(from, kind, incoming);
  }
  if (!checked.ok()) return checked;
  return intake_.Begin(from);
}

Status Shard::Place(Slot from, wire::FrameKind kind, Incoming& incoming) {
  bool verdict = kind == wire::FrameKind::kVerdict;
  return verdict ? PlaceToldVerdict(state_, from, incoming) : PlacePush(state_, from, incoming);
}

void Shard::OnPayload(Slot from) {
  BYTEPS_CHECK(intake_.IsReceiving(from));
  const Incoming& incoming = intake_.End(from);
  bool postponed = incoming.fate == Fate::kPostponed;
  if (!postponed) TakeData(from, incoming);
  intake_.Forget(from);
  if (postponed) {
    postponed_.CompleteLast(from);
    Replay(from);  // its view may have come while the payload did
  }
  ReviewRetired(state_);
}

void Shard::TakeData(Slot from, const Incoming& incoming) {
  if (incoming.fate == Fate::kVerdict) return TakeToldVerdict(state_, from, incoming);
  TakePush(state_, from, incoming);
}

void Shard::OnLost(Slot from) {
  ShardFacts& facts = state_.facts;
  if (from >= facts.members.size()) return;
  facts.members.ForgetConnection(from);
  state_.answers.ForgetConnection(from);
  postponed_.ForgetConnection(from);
  facts.sets.ForgetConnection(from);
  if (!intake_.IsReceiving(from)) return;
  const Incoming& incoming = intake_.End(from);
  Piece* piece = facts.pieces.FindOpen(incoming.header.ref);
  bool open = piece != nullptr && incoming.fate == Fate::kContribution &&
              piece->round->serial() == incoming.round_serial;
  if (open) piece->round->DropBegun(from);
  intake_.Forget(from);
}

void Shard::Retire(const std::vector<TensorId>& tensors, uint64_t use) {
  RetireTensors(state_, tensors, use);
}

void Shard::OnForgotten(const std::vector<TensorId>& tensors) { ForgetTensors(state_, tensors); }

void Shard::OnStillKnown(const wire::StillKnown& known) { DropUnknown(state_, known); }

// ---- Frames that wait for a view.

// A message that a correct worker never sends is dropped here. A view change cannot close the
// sender's connection. Only the sender hangs because of its own mistake.
void Shard::Replay(Slot from) {
  while (std::optional<PostponedFrame> frame = postponed_.TakeNext(from)) {
    static_cast<void>(TakePostponed(from, *frame));
  }
}

Status Shard::TakePostponed(Slot from, const PostponedFrame& postponed) {
  const auto* data = std::get_if<wire::DataFrame>(&postponed.frame);
  if (data == nullptr) return Take(from, std::get<wire::Frame>(postponed.frame));
  TakeAck(state_, from, data->header.count);
  Incoming incoming;
  incoming.header = data->header;
  incoming.payload_bytes = data->payload.size();
  Status placed = Place(from, data->kind, incoming);
  if (!placed.ok()) return placed;
  state_.arithmetic.Copy(incoming.place.data(), data->payload.data(), incoming.place.size());
  TakeData(from, incoming);
  return Status::Ok();
}

// ---- Other frames.

// A frame other than pushes, verdicts and acks is judged by the time of the last of these.
Status Shard::OnFrame(Slot from, wire::Frame frame, Time now) {
  if (const auto* abort = std::get_if<wire::Abort>(&frame)) {
    Status checked = CheckSender(from, abort->push);
    if (!checked.ok()) return checked;
  }
  const auto* ack = std::get_if<wire::Ack>(&frame);
  if (ack != nullptr) SetTime(now);
  if (from >= state_.facts.members.size()) return Status::Ok();
  // An ack also counts answers that the member did not take, because their piece has moved in a
  // view that is not here yet. So the news waits for that view, in which the piece no longer
  // belongs to this shard.
  if (postponed_.MustWait(from, wire::EpochOf(frame))) {
    postponed_.Add(from, std::move(frame));
    return postponed_.Check(from);
  }
  if (ack != nullptr) state_.facts.members.NoteEpoch(from, ack->epoch);
  Status taken = Take(from, frame);
  if (std::holds_alternative<wire::Resync>(frame)) ReviewRetired(state_);
  return taken;
}

// The view of the frame is here.
struct Shard::Taker {
  Status operator()(const wire::Abort& abort) const {
    TakeAck(state, from, abort.push.count);
    return TakeAbort(state, from, abort.push, abort.why);
  }
  Status operator()(const wire::Have& have) const {
    TakeHave(state, from, have.epoch, have.pieces);
    return Status::Ok();
  }
  Status operator()(const wire::Resync& resync) const {
    TakeResync(state, from, resync.epoch);
    return Status::Ok();
  }
  Status operator()(const wire::Ack& ack) const {
    TakeAck(state, from, ack.count);
    return Status::Ok();
  }
  Status operator()(const wire::ProcessSet& set) const {
    return state.facts.sets.Tell(from, set.number, set.bitmap);
  }
  Status operator()(const wire::Joined& joined) const {
    TakeJoined(state, from, joined.number, joined.bitmap);
    return Status::Ok();
  }
  Status operator()(const wire::Want&) const { return ForWorkers(); }
  Status operator()(const wire::Stable&) const { return ForWorkers(); }
  static Status ForWorkers() { return {StatusCode::kProtocol, "a frame for workers"}; }

  ShardState& state;
  const Slot from;
};

Status Shard::Take(Slot from, const wire::Frame& frame) {
  return std::visit(Taker{state_, from}, frame);
}

std::optional<Time> Shard::NextTick() {
  std::optional<Time> next = state_.wants.NextTick();
  if (!state_.answers.due().has_value()) return next;
  return next.has_value() ? std::min(*next, *state_.answers.due()) : state_.answers.due();
}

void Shard::OnTick(Time now) {
  SetTime(now);
  ReviewRetired(state_);  // a verdict that becomes stable here is news, which is due now
  state_.answers.Tick(now);
  state_.wants.Tick(now);
}

}  // namespace byteps::protocol
