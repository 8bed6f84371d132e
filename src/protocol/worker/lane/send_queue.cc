#include "src/protocol/worker/lane/send_queue.h"

#include <algorithm>

namespace byteps::protocol {
namespace {

// A push without bytes still occupies the shard.
constexpr uint32_t kCreditMin = 64;

uint64_t Pack(uint32_t high, uint32_t low) { return (uint64_t{high} << 32) | low; }

}  // namespace

void SendQueue::Begin(uint32_t shards, uint32_t piece_bytes) {
  plan::CreditOptions credit = options_;
  credit.shards = std::max<uint32_t>(1, shards);
  credit.piece_bytes_max = piece_bytes;
  credit_ = plan::CreditController(credit);
  credit_.SetRoundTrip(round_trip_);
}

void SendQueue::SetRoundTrip(Duration round_trip) {
  round_trip_ = round_trip;
  credit_.SetRoundTrip(round_trip);
}

uint32_t SendQueue::CreditOf(const Spans& spans) {
  size_t bytes = std::max(spans.push.size(), spans.want.size());
  return std::max(kCreditMin, static_cast<uint32_t>(bytes));
}

SendQueue::Ticket SendQueue::Add(const Exchange& exchange, uint32_t number, const Spans& spans) {
  return queue_.Push({exchange.priority, Pack(exchange.order, number), CreditOf(spans),
                      Pack(exchange.tensor.id, number)});
}

std::optional<SendQueue::Departure> SendQueue::Next() {
  auto entry = queue_.Pop(credit_.credit_bytes());
  if (!entry.has_value()) return std::nullopt;
  return Departure{static_cast<TensorId>(entry->task >> 32), static_cast<uint32_t>(entry->task)};
}

void SendQueue::Answered(const Spans& spans, Time now) {
  bool credit_used_up = IsFull();
  Return(spans);
  credit_.OnAnswered(now, CreditOf(spans), credit_used_up);
}

}  // namespace byteps::protocol
