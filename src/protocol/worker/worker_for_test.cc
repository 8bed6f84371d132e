#include "src/protocol/worker/worker_for_test.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace byteps::protocol {

class Worker::FrontEnd final : public FrontDriver {
 public:
  explicit FrontEnd(Worker& worker) : worker_(worker) {}
  void SendControl(const wire::Message& message) override { worker_.driver_.SendControl(message); }
  void ToLane(uint32_t lane, LaneMail mail) override {
    worker_.to_lanes_.emplace_back(lane, std::move(mail));
  }
  void Complete(OperationId id, Outcome outcome) override {
    worker_.driver_.Complete(id, std::move(outcome));
  }
  void OnSettled() override {}

 private:
  Worker& worker_;
};

class Worker::LaneEnd final : public LaneDriver {
 public:
  explicit LaneEnd(Worker& worker) : worker_(worker) {}
  void ToFront(FrontMail mail) override { worker_.to_front_.push_back(std::move(mail)); }
  void SendData(ShardId to, wire::DataFrame frame) override {
    worker_.driver_.SendData(to, std::move(frame));
  }
  void Send(ShardId to, const wire::Frame& frame) override { worker_.driver_.Send(to, frame); }
  void Forget(ConstByteSpan memory) override { worker_.driver_.Forget(memory); }

 private:
  Worker& worker_;
};

Worker::Worker(const WorkerOptions& options, BufferPool& pool, Arithmetic& arithmetic,
               WorkerDriver& driver)
    : driver_(driver),
      front_end_(std::make_unique<FrontEnd>(*this)),
      front_(FrontOptionsOf(options), arithmetic, *front_end_) {
  for (uint32_t lane = 0; lane < options.lanes; ++lane) {
    lane_ends_.push_back(std::make_unique<LaneEnd>(*this));
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

void Worker::OnView(const wire::View& view, Slot slot) {
  uint32_t rank = slot;
  for (const wire::WorkerInfo& worker : view.workers) {
    if (worker.slot == slot) rank = worker.rank;
  }
  Do([&] { front_.OnView(view, slot, rank); });
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

void Worker::Stop(const Status& why) {
  Do([&] { front_.Stop(why); });
}

void Worker::OnShardUp(ShardId shard) {
  Do([&] { LaneOf(shard).OnShardUp(shard); });
}

void Worker::OnShardDown(ShardId shard) {
  Do([&] { LaneOf(shard).OnShardDown(shard); });
}

Result<ByteSpan> Worker::OnAnswerHeader(ShardId from, const wire::DataHeader& header,
                                        size_t payload_bytes) {
  return LaneOf(from).OnAnswerHeader(from, header, payload_bytes);
}

void Worker::OnAnswer(ShardId from, Time now) {
  Do([&] { LaneOf(from).OnAnswer(from, now); });
}

void Worker::OnFrame(ShardId from, const wire::Frame& frame) {
  Do([&] { LaneOf(from).OnFrame(from, frame); });
}

// Only one lane has the piece. The others do not know the ticket.
void Worker::Resume(const PieceTicket& ticket, StageVerdict how, const Status& error) {
  Do([&] {
    for (auto& lane : lanes_) lane->Resume(ticket, how, error);
  });
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
