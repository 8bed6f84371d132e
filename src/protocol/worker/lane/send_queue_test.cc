#include "src/protocol/worker/lane/outbox.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

class OutboxTest : public testing::Test {
 protected:
  Outbox& Start(uint64_t credit_bytes) {
    plan::CreditOptions options;
    options.fixed_bytes = credit_bytes;
    outbox.emplace(options);
    outbox->Begin(1, 4096);
    return *outbox;
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
    while (auto next = outbox->Next()) left.emplace_back(next->tensor, next->number);
    return left;
  }

  std::byte memory[256] = {};
  std::optional<Outbox> outbox;
};

TEST_F(OutboxTest, PriorityThenOrderOfDeclarationThenPieces) {
  Start(1 << 20);
  for (uint32_t number : {1, 0}) {
    outbox->Add(ExchangeOf(7, 0, 2), number, SpansWith(64, 64));
    outbox->Add(ExchangeOf(8, 0, 1), number, SpansWith(64, 64));
    outbox->Add(ExchangeOf(9, 5, 3), number, SpansWith(64, 64));
  }
  EXPECT_EQ(All(), (std::vector<std::pair<TensorId, uint32_t>>{
                       {9, 0}, {9, 1}, {8, 0}, {8, 1}, {7, 0}, {7, 1}}));
}

TEST_F(OutboxTest, CreditIsHeldUntilItIsReturned) {
  Start(128);
  Spans spans = SpansWith(64, 128);  // the larger one counts
  outbox->Add(ExchangeOf(7, 0, 0), 0, spans);
  outbox->Add(ExchangeOf(7, 0, 0), 1, SpansWith(0, 0));
  ASSERT_TRUE(outbox->Next().has_value());
  EXPECT_EQ(outbox->bytes_in_flight(), 128U);
  EXPECT_FALSE(outbox->Next().has_value());
  outbox->Return(spans);
  ASSERT_TRUE(outbox->Next().has_value());
  EXPECT_EQ(outbox->bytes_in_flight(), 64U) << "a push of nothing occupies the shard, too";
  outbox->Answered(SpansWith(0, 0), Time());
  EXPECT_EQ(outbox->bytes_in_flight(), 0U);
}

TEST_F(OutboxTest, WhatIsWantedPassesTheCreditAndWhatIsRemovedNeverLeaves) {
  Start(64);
  outbox->Add(ExchangeOf(7, 0, 0), 0, SpansWith(64, 64));
  outbox->Add(ExchangeOf(7, 0, 0), 1, SpansWith(64, 64));
  Outbox::Ticket wanted = outbox->Add(ExchangeOf(7, 0, 0), 2, SpansWith(64, 64));
  Outbox::Ticket removed = outbox->Add(ExchangeOf(7, 0, 0), 3, SpansWith(64, 64));
  ASSERT_EQ(outbox->Next()->number, 0U);
  outbox->MarkWanted(wanted);
  outbox->MarkWanted(removed);
  outbox->Remove(removed);
  EXPECT_EQ(All(), (std::vector<std::pair<TensorId, uint32_t>>{{7, 2}}));
}

TEST_F(OutboxTest, TheLastWindowIsWhenNothingWaits) {
  Start(64);
  outbox->Add(ExchangeOf(7, 0, 0), 0, SpansWith(64, 64));
  outbox->Add(ExchangeOf(7, 0, 0), 1, SpansWith(64, 64));
  outbox->Next();
  EXPECT_FALSE(outbox->IsLastWindow());
  outbox->Answered(SpansWith(64, 64), Time());
  outbox->Next();
  EXPECT_TRUE(outbox->IsLastWindow());
}

TEST_F(OutboxTest, ALongPathHasMoreUnderWayAlsoInTheNextGeneration) {
  plan::CreditOptions options;
  options.bytes_min = options.bytes_max = 1024;
  outbox.emplace(options);
  outbox->SetRoundTrip(milliseconds(100));
  const Spans spans = SpansWith(64, 64);
  Time now;
  for (int generation = 0; generation < 2; ++generation) {
    outbox->Begin(1, 64);
    for (uint32_t number = 0; number < 4000; ++number) {
      outbox->Add(ExchangeOf(7, 0, 0), number, spans);
    }
    All();
    EXPECT_LE(outbox->bytes_in_flight(), options.bytes_max);
    // One piece is answered each millisecond.
    for (int answer = 0; answer < 2500; ++answer) {
      now += milliseconds(1);
      outbox->Answered(spans, now);
      All();
    }
    EXPECT_NEAR(static_cast<double>(outbox->bytes_in_flight()), 800 * 64, 8 * 64);
    EXPECT_FALSE(outbox->IsLastWindow()) << "pieces wait";
    while (!outbox->IsLastWindow()) {
      now += milliseconds(1);
      outbox->Answered(spans, now);
      All();
    }
    EXPECT_GT(outbox->bytes_in_flight(), options.bytes_max) << "the window is the credit";
    while (outbox->bytes_in_flight() > 0) outbox->Return(spans);
  }
}

}  // namespace
}  // namespace byteps::protocol
