#include "src/protocol/worker/lane/send_queue.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

class SendQueueTest : public testing::Test {
 protected:
  SendQueue& Start(uint64_t credit_bytes) {
    plan::CreditOptions options;
    options.fixed_bytes = credit_bytes;
    queue.emplace(options);
    queue->Begin(1, 4096);
    return *queue;
  }

  static Exchange ExchangeOf(TensorId tensor, int32_t priority, uint32_t order) {
    Exchange exchange;
    exchange.tensor.id = tensor;
    exchange.priority = priority;
    exchange.order = order;
    return exchange;
  }

  // Returns spans that push `push` bytes and want `want` bytes.
  Spans SpansWith(size_t push, size_t want) {
    Spans spans;
    spans.push = ConstByteSpan(memory, push);
    spans.want = ByteSpan(memory, want);
    return spans;
  }

  std::vector<std::pair<TensorId, uint32_t>> All() {
    std::vector<std::pair<TensorId, uint32_t>> left;
    while (auto next = queue->Next()) left.emplace_back(next->tensor, next->number);
    return left;
  }

  std::byte memory[256] = {};
  std::optional<SendQueue> queue;
};

TEST_F(SendQueueTest, PriorityThenOrderOfDeclarationThenPieces) {
  Start(1 << 20);
  for (uint32_t number : {1, 0}) {
    queue->Add(ExchangeOf(7, 0, 2), number, SpansWith(64, 64));
    queue->Add(ExchangeOf(8, 0, 1), number, SpansWith(64, 64));
    queue->Add(ExchangeOf(9, 5, 3), number, SpansWith(64, 64));
  }
  EXPECT_EQ(All(), (std::vector<std::pair<TensorId, uint32_t>>{
                       {9, 0}, {9, 1}, {8, 0}, {8, 1}, {7, 0}, {7, 1}}));
}

TEST_F(SendQueueTest, CreditIsHeldUntilItIsReturned) {
  Start(128);
  Spans spans = SpansWith(64, 128);  // the larger one counts
  queue->Add(ExchangeOf(7, 0, 0), 0, spans);
  queue->Add(ExchangeOf(7, 0, 0), 1, SpansWith(0, 0));
  ASSERT_TRUE(queue->Next().has_value());
  EXPECT_EQ(queue->bytes_in_flight(), 128U);
  EXPECT_FALSE(queue->Next().has_value());
  queue->Return(spans);
  ASSERT_TRUE(queue->Next().has_value());
  EXPECT_EQ(queue->bytes_in_flight(), 64U) << "a push of nothing occupies the shard, too";
  queue->Answered(SpansWith(0, 0), Time());
  EXPECT_EQ(queue->bytes_in_flight(), 0U);
}

TEST_F(SendQueueTest, WhatIsWantedPassesTheCreditAndWhatIsRemovedNeverLeaves) {
  Start(64);
  queue->Add(ExchangeOf(7, 0, 0), 0, SpansWith(64, 64));
  queue->Add(ExchangeOf(7, 0, 0), 1, SpansWith(64, 64));
  SendQueue::Ticket wanted = queue->Add(ExchangeOf(7, 0, 0), 2, SpansWith(64, 64));
  SendQueue::Ticket removed = queue->Add(ExchangeOf(7, 0, 0), 3, SpansWith(64, 64));
  ASSERT_EQ(queue->Next()->number, 0U);
  queue->MarkWanted(wanted);
  queue->MarkWanted(removed);
  queue->Remove(removed);
  EXPECT_EQ(All(), (std::vector<std::pair<TensorId, uint32_t>>{{7, 2}}));
}

TEST_F(SendQueueTest, TheLastCreditIsWhenNothingWaits) {
  Start(64);
  queue->Add(ExchangeOf(7, 0, 0), 0, SpansWith(64, 64));
  queue->Add(ExchangeOf(7, 0, 0), 1, SpansWith(64, 64));
  queue->Next();
  EXPECT_FALSE(queue->IsLastCredit());
  queue->Answered(SpansWith(64, 64), Time());
  queue->Next();
  EXPECT_TRUE(queue->IsLastCredit());
}

TEST_F(SendQueueTest, ALongPathHasMoreUnderWayAlsoInTheNextGeneration) {
  plan::CreditOptions options;
  options.bytes_min = options.bytes_max = 1024;
  queue.emplace(options);
  queue->SetRoundTrip(milliseconds(100));
  const Spans spans = SpansWith(64, 64);
  Time now;
  for (int generation = 0; generation < 2; ++generation) {
    queue->Begin(1, 64);
    for (uint32_t number = 0; number < 4000; ++number) {
      queue->Add(ExchangeOf(7, 0, 0), number, spans);
    }
    All();
    EXPECT_LE(queue->bytes_in_flight(), options.bytes_max);
    // One piece is answered each millisecond.
    for (int answer = 0; answer < 2500; ++answer) {
      now += milliseconds(1);
      queue->Answered(spans, now);
      All();
    }
    EXPECT_NEAR(static_cast<double>(queue->bytes_in_flight()), 800 * 64, 8 * 64);
    EXPECT_FALSE(queue->IsLastCredit()) << "pieces wait";
    while (!queue->IsLastCredit()) {
      now += milliseconds(1);
      queue->Answered(spans, now);
      All();
    }
    EXPECT_GT(queue->bytes_in_flight(), options.bytes_max) << "the last credit is that of the path";
    while (queue->bytes_in_flight() > 0) queue->Return(spans);
  }
}

}  // namespace
}  // namespace byteps::protocol
