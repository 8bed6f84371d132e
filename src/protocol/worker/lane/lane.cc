#include "src/protocol/worker/lane/lane.h"

#include <algorithm>
#include <utility>

#include "src/protocol/view_parts.h"
#include "src/protocol/worker/exchange/deal.h"
#include "src/protocol/worker/lane/answer_reader.h"
#include "src/protocol/worker/lane/lane_context.h"
#include "src/protocol/worker/lane/lane_moves.h"
#include "src/protocol/worker/lane/piece_walk.h"
#include "src/protocol/worker/lane/verdicts.h"

namespace byteps::protocol {
namespace {

// The bytes of a usual step. The size of its pieces gives the minimum of the credit.
constexpr uint64_t kStepBytes = 100'000'000;

}  // namespace

struct Lane::Parts {
  Parts(const LaneOptions& options, BufferPool& pool, Arithmetic& arithmetic, LaneDriver& driver)
      : context(options, pool, arithmetic, driver),
        reader(pool, arithmetic),
        sender(context),
        walk(context, reader, sender),
        verdicts(context, walk),
        moves(context, walk, sender) {}

  void On(const to_lane::View& mail);
  void On(const to_lane::TakeOver& mail);
  void On(const to_lane::AddProcessSet& mail);
  void On(const to_lane::RemoveProcessSet& mail);
  void On(const to_lane::Joined& mail) { moves.SetJoined(mail); }
  void On(const to_lane::Begin& mail) { walk.Begin(*mail.exchange); }
  void On(const to_lane::Repeat& mail) { walk.Repeat(mail); }
  void On(const to_lane::Withdraw& mail) { walk.Withdraw(*mail.exchange); }
  void On(const to_lane::Abort& mail) { walk.Abort(mail); }
  void On(const to_lane::Retire& mail);
  void On(const to_lane::Forget& mail);
  void On(const to_lane::Stop&) { context.stopped = true; }
  void On(const to_lane::Settle& mail) { settle = mail.question; }
  void BeginGeneration(const wire::View& view);
  void TellRates();

  LaneContext context;
  AnswerReader reader;
  PieceSender sender;
  PieceWalk walk;
  Verdicts verdicts;
  LaneMoves moves;
  std::optional<uint64_t> settle;  // a question of the front without an answer
};

Lane::Lane(const LaneOptions& options, BufferPool& pool, Arithmetic& arithmetic, LaneDriver& driver)
    : parts_(std::make_unique<Parts>(options, pool, arithmetic, driver)) {}

Lane::~Lane() = default;

void Lane::OnMail(LaneMail mail) {
  std::visit([this](const auto& one) { parts_->On(one); }, mail);
  TellIfSettled();
}

void Lane::TellIfSettled() {
  if (!parts_->settle.has_value()) return;
  if (!parts_->context.rules.MayLeave(HoldsUnstable())) return;
  parts_->context.driver.ToFront(to_front::Settled{*std::exchange(parts_->settle, std::nullopt)});
}

void Lane::Parts::On(const to_lane::View& mail) {
  const wire::View& view = *mail.view;
  uint64_t old_epoch = context.epoch;
  bool begins = old_epoch == 0 || view.generation != context.generation;
  context.epoch = view.epoch;
  context.slot = mail.slot;
  context.pieces.SetOwnership(OwnershipOf(view));
  if (begins) BeginGeneration(view);
  context.receipts.AddView(view.epoch, WorkersOf(view));
  context.meter.Restart();
  if (!begins) moves.OnView(old_epoch);
}

void Lane::Parts::BeginGeneration(const wire::View& view) {
  context.generation = view.generation;
  context.awaits_take_over = false;
  context.readable_epoch = context.epoch;
  size_t shards = context.pieces.ownership().shards().size();
  context.links.Begin(shards);
  context.meter.Begin(shards);
  reader.Begin(shards);
  context.pieces.Clear();
  walk.BeginGeneration();
  context.receipts.Clear();
  context.wants.Clear();
  moves.Begin();
  auto lanes = context.options.lanes;
  context.send_queue.Begin(static_cast<uint32_t>((shards + lanes - 1) / lanes),
                           DealOptionsOf(view).PieceBytes(kStepBytes));
}

void Lane::Parts::On(const to_lane::TakeOver& mail) {
  moves.TakeOver(mail);
  for (ShardId shard = 0; shard < context.links.size(); ++shard) {
    if (!context.links.IsUp(shard)) continue;
    context.links.TakePostponed(shard, context.epoch);
    verdicts.ReleaseStable(shard);
    reader.TakePostponed(shard, context.epoch, context.now, verdicts);
  }
  walk.SetOut();
}

void Lane::Parts::On(const to_lane::AddProcessSet& mail) {
  context.receipts.AddProcessSet(mail.number, mail.slots);
  if (!mail.ranks.empty()) moves.AddProcessSet(mail.number, mail.ranks);
}

void Lane::Parts::On(const to_lane::RemoveProcessSet& mail) {
  context.receipts.RemoveProcessSet(mail.number);
  moves.RemoveProcessSet(mail.number);
}

void Lane::Parts::On(const to_lane::Retire& mail) {
  for (TensorId tensor : mail.tensors) {
    context.pieces.Retire(tensor);
    walk.Retire(tensor);
    context.wants.Take(tensor);
  }
}

void Lane::Parts::On(const to_lane::Forget& mail) {
  for (TensorId tensor : mail.tensors) {
    context.pieces.Forget(tensor);
    walk.Retire(tensor);
    context.wants.Take(tensor);
  }
}

void Lane::OnShardUp(ShardId shard) {
  LaneContext& context = parts_->context;
  if (shard >= context.links.size()) return;
  parts_->reader.Reset(shard);
  context.links.OnUp(shard);
  parts_->moves.OnShardUp(shard);
}

void Lane::OnShardDown(ShardId shard) {
  LaneContext& context = parts_->context;
  if (shard >= context.links.size()) return;
  parts_->reader.Reset(shard);
  context.links.OnDown(shard);
  context.meter.Drop(shard);
  parts_->moves.OnShardDown(shard);
}

Result<ByteSpan> Lane::OnAnswerHeader(ShardId from, const wire::DataHeader& header,
                                      size_t payload_bytes) {
  LaneContext& context = parts_->context;
  if (!context.links.IsUp(from) || header.generation != context.generation) {
    return Status(StatusCode::kProtocol, "an answer of another generation");
  }
  return parts_->reader.OnHeader(from, header, payload_bytes, context.readable_epoch,
                                 parts_->verdicts);
}

void Lane::OnAnswer(ShardId from, Time now) {
  parts_->reader.OnPayload(from, parts_->context.readable_epoch, now, parts_->verdicts);
  parts_->TellRates();
  TellIfSettled();
}

void Lane::Parts::TellRates() {
  std::optional<plan::ExchangeMeter::Measurement> measurement = context.meter.Take();
  if (!measurement.has_value()) return;
  auto in_us = [](Duration time) {
    return static_cast<uint64_t>(std::chrono::duration_cast<microseconds>(time).count());
  };
  to_front::Measured measured;
  measured.rates.epoch = context.epoch;
  measured.rates.burst_bytes = measurement->burst_bytes;
  measured.rates.burst_us = in_us(measurement->bursts);
  for (ShardId shard = context.options.lane; shard < measurement->shards.size();
       shard += context.options.lanes) {
    const plan::ExchangeMeter::Shard& one = measurement->shards[shard];
    measured.rates.shards.push_back(
        {shard, one.bytes, in_us(one.busy), in_us(measurement->active)});
  }
  context.driver.ToFront(std::move(measured));
}

void Lane::OnFrame(ShardId from, const wire::Frame& frame) {
  LaneContext& context = parts_->context;
  const auto* want = std::get_if<wire::Want>(&frame);
  if (want != nullptr && from < context.links.size()) {
    for (const wire::PieceRef& ref : want->pieces) parts_->walk.Want(ref);
    parts_->walk.SetOut();
  }
  const auto* stable = std::get_if<wire::Stable>(&frame);
  if (stable != nullptr && context.links.IsUp(from)) {
    context.links.OnStable(from, *stable, context.readable_epoch);
    parts_->verdicts.ReleaseStable(from);
    TellIfSettled();
  }
}

void Lane::OnRoundTrip(Duration round_trip) { parts_->context.send_queue.SetRoundTrip(round_trip); }

void Lane::Resume(const PieceTicket& ticket, StageVerdict how, const Status& error) {
  parts_->walk.Resume(ticket, how, error);
}

void Lane::AbandonAll() { parts_->walk.AbandonAll(); }

bool Lane::HoldsUnstable() const {
  if (parts_->context.awaits_take_over) return true;  // a piece that comes may be unstable
  return std::ranges::any_of(parts_->context.pieces.all(),
                             [](const auto& entry) { return entry.second->HoldsUnstable(); });
}

std::optional<Time> Lane::NextTick() {
  std::optional<Time> owes = parts_->context.links.OwesSince();
  if (owes.has_value()) *owes += parts_->context.options.acknowledge_after;
  return owes;
}

void Lane::OnTick(Time now) {
  LaneContext& context = parts_->context;
  for (auto next = NextTick(); next.has_value() && *next <= now; next = NextTick()) {
    ShardId shard = context.links.OldestDebt();
    context.driver.Send(shard, wire::Ack{context.links.Acknowledge(shard), context.epoch});
  }
}

uint64_t Lane::bytes_in_flight() const { return parts_->context.send_queue.bytes_in_flight(); }
uint64_t Lane::repeated_answers() const { return parts_->verdicts.repeated(); }

}  // namespace byteps::protocol
