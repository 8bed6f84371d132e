// Decides which piece may set out and when. Pieces go in order of urgency. A credit, which follows
// the links, limits the bytes between push and answer. One thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "src/base/time.h"
#include "src/plan/credit_controller.h"
#include "src/plan/priority_credit_queue.h"
#include "src/protocol/worker/exchange/exchange.h"

namespace byteps::protocol {

class SendQueue {
 public:
  using Ticket = plan::PriorityCreditQueue::Ticket;
  struct Departure {
    TensorId tensor = 0;
    uint32_t number = 0;
  };

  explicit SendQueue(const plan::CreditOptions& options) : options_(options), credit_(options) {}

  // Begins a generation. `shards`: the number of shards of this lane. `piece_bytes`: the size of
  // the pieces of a usual step.
  void Begin(uint32_t shards, uint32_t piece_bytes);

  Ticket Add(const Exchange& exchange, uint32_t number, const Spans& spans);
  // Lets the piece pass the credit, because the piece's owner waits for it.
  void MarkWanted(Ticket ticket) { queue_.MarkWanted(ticket); }
  void Remove(Ticket ticket) { queue_.Remove(ticket); }
  // Returns the next piece that has credit.
  std::optional<Departure> Next();
  // Takes back the credit of a piece that does not need it any more, without an answer.
  void Return(const Spans& spans) { queue_.Returned(CreditOf(spans)); }
  // Takes back the credit of a piece whose answer is here.
  void Answered(const Spans& spans, Time now);

  // See CreditController. The value also holds for the generations that follow.
  void SetRoundTrip(Duration round_trip);

  // Returns whether pieces wait that have no credit.
  bool IsFull() const { return queue_.IsBlocked(credit_.credit_bytes()); }
  // Returns whether all waiting pieces have set out, and the bytes under way are the last credit of
  // a step.
  bool IsLastCredit() const {
    const uint64_t credit = std::max(options_.bytes_max, credit_.credit_bytes());
    return queue_.empty() && queue_.bytes_in_flight() <= credit;
  }
  uint64_t bytes_in_flight() const { return queue_.bytes_in_flight(); }

 private:
  static uint32_t CreditOf(const Spans& spans);

  const plan::CreditOptions options_;
  plan::PriorityCreditQueue queue_;
  plan::CreditController credit_;  // renewed in each generation
  Duration round_trip_{};
};

}  // namespace byteps::protocol
