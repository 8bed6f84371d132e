#include "src/protocol/worker/worker.h"

#include <algorithm>

namespace byteps::protocol {

FrontOptions FrontOptionsOf(const WorkerOptions& options) {
  FrontOptions front;
  front.lanes = options.lanes;
  front.gathered_bytes_max = options.gathered_bytes_max;
  front.overdue_after = options.overdue_after;
  front.copy_slice_bytes = options.copy_slice_bytes;
  front.idle = options.idle;
  front.codecs = options.codecs;
  front.first_round = options.first_round;
  front.rules = options.front_rules;
  return front;
}

LaneOptions LaneOptionsOf(const WorkerOptions& options, uint32_t lane) {
  LaneOptions made;
  made.lane = lane;
  made.lanes = options.lanes;
  made.credit = options.credit;
  made.acknowledge_after = options.acknowledge_after;
  made.codecs = options.codecs;
  made.paths = options.paths;
  if (options.watch) made.watch = options.watch(lane);
  made.rules = options.lane_rules;
  return made;
}

class Worker::FrontEnd final : public FrontDriver {
 public:
  explicit FrontEnd(Worker& worker) : worker_(worker) {}
  void SendControl(const wire::Message& message) override { worker_.driver_.SendControl(message); }
  void ToLane(uint32_t lane, LaneMail mail) override {
    if (worker_.driver_.CarryToLane(lane, mail)) return;
    worker_.to_lanes_.emplace_back(lane, std::move(mail));
  }
  void Complete(OperationId id, Outcome outcome) override {
    worker_.driver_.Complete(id, std::move(outcome));
  }
  void OnSettled() override { worker_.driver_.OnSettled(); }

 private:
  Worker& worker_;
};

class Worker::LaneEnd final : public LaneDriver {
 public:
  LaneEnd(Worker& worker, uint32_t lane) : worker_(worker), lane_(lane) {}
  void ToFront(FrontMail mail) override {
    if (worker_.driver_.CarryToFront(lane_, mail)) return;
    worker_.to_front_.push_back(std::move(mail));
  }
  void SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                BufferRef keep) override {
    worker_.driver_.SendPush(to, header, payload, std::move(keep));
  }
  void SendVerdict(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                   BufferRef keep) override {
    worker_.driver_.SendVerdict(to, header, payload, std::move(keep));
  }
  void SendHave(ShardId to, uint64_t epoch, const std::vector<wire::HeldPiece>& pieces) override {
    worker_.driver_.SendHave(to, epoch, pieces);
  }
  void SendResync(ShardId to, uint64_t epoch) override { worker_.driver_.SendResync(to, epoch); }
  void SendAbort(ShardId to, const wire::DataHeader& push, const std::string& why) override {
    worker_.driver_.SendAbort(to, push, why);
  }
  void SendAck(ShardId to, const wire::Progress& ack) override { worker_.driver_.SendAck(to, ack); }
  void SendProcessSet(ShardId to, const wire::Progress& number, const SlotSet& ranks) override {
    worker_.driver_.SendProcessSet(to, number, ranks);
  }
  void SendJoined(ShardId to, const wire::Progress& number, const SlotSet& ranks) override {
    worker_.driver_.SendJoined(to, number, ranks);
  }
  void Forget(ConstByteSpan memory) override { worker_.driver_.Forget(lane_, memory); }

 private:
  Worker& worker_;
  const uint32_t lane_;
};

Worker::Worker(const WorkerOptions& options, BufferPool& pool, Arithmetic& arithmetic,
               WorkerDriver& driver)
    : driver_(driver),
      front_end_(std::make_unique<FrontEnd>(*this)),
      front_(FrontOptionsOf(options), arithmetic, *front_end_) {
  for (uint32_t lane = 0; lane < options.lanes; ++lane) {
    lane_ends_.push_back(std::make_unique<LaneEnd>(*this, lane));
    lanes_.push_back(
        std::make_unique<Lane>(LaneOptionsOf(options, lane), pool, arithmetic, *lane_ends_.back()));
  }
}

Worker::~Worker() = default;

void Worker::DeliverAll() {
  if (std::exchange(delivering_, true)) return;
  while (!to_lanes_.empty() || !to_front_.empty()) {
    if (!to_lanes_.empty()) {
      auto [lane, mail] = std::move(to_lanes_.front());
      to_lanes_.pop_front();
      lanes_[lane]->OnMail(std::move(mail));
    } else {
      FrontMail mail = std::move(to_front_.front());
      to_front_.pop_front();
      front_.OnMail(std::move(mail));
    }
  }
  delivering_ = false;
}

template <typename Call>
auto Worker::Do(Call call) {
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    DeliverAll();
  } else {
    auto result = call();
    DeliverAll();
    return result;
  }
}

void Worker::OnView(const wire::View& view, Slot slot, uint32_t rank) {
  Do([&] { front_.OnView(view, slot, rank); });
}

void Worker::OnView(const wire::View& view, Slot slot) {
  uint32_t rank = slot;
  for (const wire::WorkerInfo& worker : view.workers) {
    if (worker.slot == slot) rank = worker.rank;
  }
  OnView(view, slot, rank);
}

Status Worker::Submit(Operation operation) {
  return Do([&] { return front_.Submit(std::move(operation)); });
}

Status Worker::AddProcessSet(uint32_t number, const std::vector<uint32_t>& ranks) {
  return Do([&] { return front_.AddProcessSet(number, ranks); });
}

Status Worker::RemoveProcessSet(uint32_t number) {
  return Do([&] { return front_.RemoveProcessSet(number); });
}

void Worker::OnDeclared(const wire::Declared& message) {
  Do([&] { front_.OnDeclared(message); });
}

void Worker::OnDeclareFailed(const wire::DeclareFailed& message) {
  Do([&] { front_.OnDeclareFailed(message); });
}

void Worker::OnForgotten(const wire::Forgotten& message) {
  Do([&] { front_.OnForgotten(message); });
}

void Worker::Abort(OperationId id, const std::string& why) {
  Do([&] { front_.Abort(id, {.why = why, .others = "", .join_too = false}); });
}

void Worker::Settle() {
  Do([&] { front_.Settle(); });
}

void Worker::Stop(const Status& why) {
  Do([&] { front_.Stop(why); });
}

void Worker::OnShardUp(ShardId shard) {
  Do([&] { lanes_[LaneOf(shard)]->OnShardUp(shard); });
}

void Worker::OnShardDown(ShardId shard) {
  Do([&] { lanes_[LaneOf(shard)]->OnShardDown(shard); });
}

Result<ByteSpan> Worker::OnAnswerHeader(ShardId from, const wire::DataHeader& header,
                                        size_t payload_bytes) {
  return lanes_[LaneOf(from)]->OnAnswerHeader(from, header, payload_bytes);
}

void Worker::OnAnswer(ShardId from, Time now) {
  Do([&] { lanes_[LaneOf(from)]->OnAnswer(from, now); });
}

void Worker::OnWant(ShardId from, const std::vector<wire::PieceRef>& pieces) {
  Do([&] { lanes_[LaneOf(from)]->OnWant(from, pieces); });
}

void Worker::OnStable(ShardId from, const wire::Progress& stable) {
  Do([&] { lanes_[LaneOf(from)]->OnStable(from, stable); });
}

// Only one lane has the piece. The others do not know the ticket.
void Worker::Resume(const PieceTicket& ticket, StageVerdict how, const Status& error) {
  Do([&] {
    for (auto& lane : lanes_) lane->Resume(ticket, how, error);
  });
}

void Worker::DeliverToLane(uint32_t lane, LaneMail mail) {
  Do([&] { lanes_[lane]->OnMail(std::move(mail)); });
}

void Worker::DeliverToFront(FrontMail mail) {
  Do([&] { front_.OnMail(std::move(mail)); });
}

bool Worker::HoldsUnstable() const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const auto& lane) { return lane->HoldsUnstable(); });
}

std::optional<Time> Worker::NextTick() {
  std::optional<Time> next = front_.NextTick();
  for (auto& lane : lanes_) {
    std::optional<Time> due = lane->NextTick();
    if (due.has_value()) next = next.has_value() ? std::min(*next, *due) : *due;
  }
  return next;
}

void Worker::OnTick(Time now) {
  for (auto& lane : lanes_) lane->OnTick(now);
  std::optional<Time> next = front_.NextTick();
  if (next.has_value() && *next <= now) front_.OnTick(now);
  DeliverAll();
}

uint64_t Worker::bytes_in_flight() const {
  uint64_t bytes = 0;
  for (const auto& lane : lanes_) bytes += lane->bytes_in_flight();
  return bytes;
}

uint64_t Worker::repeated_answers() const {
  uint64_t count = 0;
  for (const auto& lane : lanes_) count += lane->repeated_answers();
  return count;
}

}  // namespace byteps::protocol
