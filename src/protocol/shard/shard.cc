#include "src/protocol/shard/shard.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"

namespace byteps::protocol {

Shard::Shard(const ShardOptions& options, BufferPool& pool, Arithmetic& arithmetic,
             ShardDriver& driver)
    : options_(options),
      pool_(pool),
      arithmetic_(arithmetic),
      view_(*options.rules),
      sets_(members_),
      attendance_(members_, view_),
      answers_({pool, arithmetic, driver, view_, members_, sets_, pieces_}, options.stable_after),
      combiner_(pool, arithmetic, *options.codecs, members_),
      wants_({options.want_after, options.want_again_after}, pieces_, attendance_, driver),
      rounds_({view_, members_, attendance_, sets_, combiner_, answers_, wants_}, options),
      review_({view_, attendance_, pieces_, answers_, rounds_}),
      contributions_(
          {pool, *options.rules, view_, members_, attendance_, sets_, pieces_, answers_, rounds_}),
      told_({pool, arithmetic, *options.rules, view_, members_, pieces_, answers_, rounds_},
            options.piece_bytes_max),
      reports_({view_, members_, pieces_, answers_, rounds_, told_}),
      postponed_(options, view_, members_) {}

void Shard::SetTime(Time now) {
  now_ = std::max(now_, now);
  rounds_.SetTime(now_);
}

void Shard::OnView(const wire::View& view, ShardId self) {
  uint64_t old_epoch = view_.epoch();
  bool begins = view_.Set(view, self);
  std::vector<Slot> gone = members_.SetView(view, begins);
  if (begins) {
    pieces_.Clear();
    rounds_.Clear();
    wants_.Clear();
  }
  sets_.OnView(begins);
  answers_.SetSlots(members_.size(), begins);
  intake_.SetSlots(members_.size(), begins);
  postponed_.OnView();
  for (Slot slot : gone) {
    if (options_.rules->IsCutOff(false)) OnLost(slot);
  }
  if (!begins) review_.OnView(old_epoch, now_);
  for (Slot slot = 0; slot < members_.size(); ++slot) Replay(slot);
  review_.ReviewRetired();
}

Status Shard::CheckSender(Slot from, const wire::DataHeader& header) const {
  auto wrong = [](const std::string& what) {
    return Status(StatusCode::kProtocol, "push refused: " + what);
  };
  if (from >= members_.size() || options_.rules->IsCutOff(members_.IsPresent(from))) {
    return wrong(members_.NameOf(from) + " is not in the view");
  }
  if (intake_.IsReceiving(from)) return wrong("a push began inside another one");
  if (header.piece_bytes > options_.piece_bytes_max) return wrong("the piece is too large");
  if (header.ref.round == 0) return wrong("rounds count from 1");
  if (!view_.IsShard(header.home)) return wrong("its home is no shard of the view");
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
    checked = postponed_.AddData(from, kind, incoming, pool_);
  } else {
    reports_.TakeAck(from, header.count);
    checked = Place(from, kind, incoming);
  }
  if (!checked.ok()) return checked;
  return intake_.Begin(from);
}

Status Shard::Place(Slot from, wire::FrameKind kind, Incoming& incoming) {
  bool verdict = kind == wire::FrameKind::kVerdict;
  return verdict ? told_.Place(from, incoming) : contributions_.Place(from, incoming, now_);
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
  review_.ReviewRetired();
}

void Shard::TakeData(Slot from, const Incoming& incoming) {
  if (incoming.fate == Fate::kVerdict) return told_.Take(from, incoming);
  contributions_.Take(from, incoming);
}

void Shard::OnLost(Slot from) {
  if (from >= members_.size()) return;
  members_.ForgetConnection(from);
  answers_.ForgetConnection(from);
  postponed_.ForgetConnection(from);
  sets_.ForgetConnection(from);
  if (!intake_.IsReceiving(from)) return;
  const Incoming& incoming = intake_.End(from);
  Piece* piece = pieces_.FindOpen(incoming.header.ref);
  bool open = piece != nullptr && incoming.fate == Fate::kContribution &&
              piece->round->serial() == incoming.round_serial;
  if (open) piece->round->DropBegun(from);
  intake_.Forget(from);
}

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
  reports_.TakeAck(from, data->header.count);
  Incoming incoming;
  incoming.header = data->header;
  incoming.payload_bytes = data->payload.size();
  Status placed = Place(from, data->kind, incoming);
  if (!placed.ok()) return placed;
  arithmetic_.Copy(incoming.place.data(), data->payload.data(), incoming.place.size());
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
  if (from >= members_.size()) return Status::Ok();
  // An ack also counts answers that the member did not take, because their piece has moved in a
  // view that is not here yet. So the news waits for that view, in which the piece no longer
  // belongs to this shard.
  if (postponed_.MustWait(from, wire::EpochOf(frame))) {
    postponed_.Add(from, std::move(frame));
    return postponed_.Check(from);
  }
  if (ack != nullptr) members_.NoteEpoch(from, ack->epoch);
  Status taken = Take(from, frame);
  if (std::holds_alternative<wire::Resync>(frame)) review_.ReviewRetired();
  return taken;
}

// The view of the frame is here.
struct Shard::Taker {
  Status operator()(const wire::Abort& abort) const {
    shard.reports_.TakeAck(from, abort.push.count);
    return shard.contributions_.TakeAbort(from, abort.push, abort.why, shard.now_);
  }
  Status operator()(const wire::Have& have) const {
    shard.reports_.TakeHave(from, have.epoch, have.pieces);
    return Status::Ok();
  }
  Status operator()(const wire::Resync& resync) const {
    shard.reports_.TakeResync(from, resync.epoch);
    return Status::Ok();
  }
  Status operator()(const wire::Ack& ack) const {
    shard.reports_.TakeAck(from, ack.count);
    return Status::Ok();
  }
  Status operator()(const wire::ProcessSet& set) const {
    return shard.sets_.Tell(from, set.number, set.bitmap);
  }
  Status operator()(const wire::Joined& joined) const {
    shard.reports_.TakeJoined(from, joined.number, joined.bitmap);
    return Status::Ok();
  }
  Status operator()(const wire::Want&) const { return ForWorkers(); }
  Status operator()(const wire::Stable&) const { return ForWorkers(); }
  static Status ForWorkers() { return {StatusCode::kProtocol, "a frame for workers"}; }

  Shard& shard;
  const Slot from;
};

Status Shard::Take(Slot from, const wire::Frame& frame) {
  return std::visit(Taker{*this, from}, frame);
}

std::optional<Time> Shard::NextTick() {
  std::optional<Time> next = wants_.NextTick();
  if (!answers_.due().has_value()) return next;
  return next.has_value() ? std::min(*next, *answers_.due()) : answers_.due();
}

void Shard::OnTick(Time now) {
  SetTime(now);
  review_.ReviewRetired();  // a verdict that becomes stable here is news, which is due now
  answers_.Tick(now);
  wants_.Tick(now);
}

}  // namespace byteps::protocol
