// What may set out and when: pieces in order of urgency, under a credit of bytes between push and
// answer that follows the links. One thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "src/base/time.h"
#include "src/plan/credit_controller.h"
#include "src/plan/priority_credit_queue.h"
#include "src/protocol/worker/exchange/exchange.h"

namespace byteps::protocol {

class Outbox {
 public:
  using Ticket = plan::PriorityCreditQueue::Ticket;
  struct Departure {
    TensorId tensor = 0;
    uint32_t number = 0;
  };

  explicit Outbox(const plan::CreditOptions& options) : options_(options), credit_(options) {}

  // A generation begins, with so many shards in this lane and pieces of a usual step of this size.
  void Begin(uint32_t shards, uint32_t piece_bytes);

  Ticket Add(const Exchange& exchange, uint32_t number, const Spans& spans);
  // The piece's owner waits for it: it passes the credit.
  void MarkWanted(Ticket ticket) { queue_.MarkWanted(ticket); }
  void Remove(Ticket ticket) { queue_.Remove(ticket); }
  // The next piece that has credit.
  std::optional<Departure> Next();
  // A piece that had its credit needs it no longer, ...
  void Return(const Spans& spans) { queue_.Returned(CreditOf(spans)); }
  // ... because its answer is here.
  void Answered(const Spans& spans, Time now);

  // As of CreditController; also for the generations that follow.
  void SetRoundTrip(Duration round_trip);

  // Pieces wait, and there is no credit for them.
  bool IsFull() const { return queue_.IsBlocked(credit_.credit_bytes()); }
  // All that waited has set out, and what is under way is the last window of a step.
  bool IsLastWindow() const {
    const uint64_t window = std::max(options_.bytes_max, credit_.credit_bytes());
    return queue_.empty() && queue_.bytes_in_flight() <= window;
  }
  uint64_t bytes_in_flight() const { return queue_.bytes_in_flight(); }

 private:
  static uint32_t CreditOf(const Spans& spans);

  const plan::CreditOptions options_;
  plan::PriorityCreditQueue queue_;
  plan::CreditController credit_;  // of the generation
  Duration round_trip_{};
};

}  // namespace byteps::protocol
