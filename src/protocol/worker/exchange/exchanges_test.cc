#include "src/protocol/worker/exchange/exchanges.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <new>

#include "src/protocol/worker/worker_mistakes_for_test.h"

namespace byteps::protocol {
namespace {

constexpr OperationId kOperation = 31;

// Exchanges with lanes that only record what they are told.
class ExchangesForTest {
 public:
  explicit ExchangesForTest(uint32_t lanes, const FrontRules& rules = kFrontRules)
      : mailing(lanes,
                [this](uint32_t lane, LaneMail mail) {
                  if (fails) throw std::bad_alloc();
                  sent.emplace_back(lane, std::move(mail));
                }),
        exchanges(mailing, rules) {}

  uint64_t Begin(uint32_t pieces, bool atomic = false) {
    Exchange exchange;
    exchange.tensor.id = 7;
    exchange.count = pieces;
    exchange.atomic = atomic;
    return exchanges.Begin(kOperation, exchange);
  }

  static to_front::PartDone PartOf(uint32_t lane, uint64_t serial, uint32_t pieces,
                                   const std::vector<Slot>& slots) {
    to_front::PartDone part;
    part.lane = lane;
    part.serial = serial;
    part.pieces = pieces;
    auto receipt = std::make_shared<SlotSet>();
    for (Slot slot : slots) receipt->Insert(slot);
    if (pieces > 0) part.receipt = receipt;
    return part;
  }

  template <typename Mail>
  std::vector<Mail> Sent() const {
    std::vector<Mail> found;
    for (const auto& [lane, mail] : sent) {
      if (const Mail* one = std::get_if<Mail>(&mail)) found.push_back(*one);
    }
    return found;
  }

  bool fails = false;  // no memory for mail
  std::vector<std::pair<uint32_t, LaneMail>> sent;
  LaneMailing mailing;
  Exchanges exchanges;
};

// Returns after how many releases, by `lanes` in this order, a withdrawn exchange is over.
size_t EndsAfter(const std::vector<uint32_t>& lanes, const FrontRules& rules) {
  ExchangesForTest test(4, rules);
  uint64_t serial = test.Begin(8);
  if (test.exchanges.Withdraw(serial).has_value()) return 0;
  for (size_t i = 0; i < lanes.size(); ++i) {
    auto end = test.exchanges.OnReleased({lanes[i], serial, 7});
    if (end.has_value() && end->withdrawn && end->operation == kOperation) return i + 1;
  }
  return SIZE_MAX;
}

// Until the last lane has released it, a lane may still receive an answer into memory that would
// belong to the user again.
RC_GTEST_PROP(ExchangesTest, AWithdrawnExchangeIsOverWhenTheLastLaneHasSaidSo, ()) {
  auto lanes = *rc::gen::container<std::vector<uint32_t>>(rc::gen::inRange(0U, 4U));
  std::vector<bool> said(4);
  size_t expected = SIZE_MAX;
  for (size_t i = 0; i < lanes.size() && expected == SIZE_MAX; ++i) {
    said[lanes[i]] = true;
    if (said == std::vector<bool>(4, true)) expected = i + 1;
  }
  RC_ASSERT(EndsAfter(lanes, kFrontRules) == expected);
}

TEST(ExchangesTest, ToEndBeforeAllLanesHaveReleasedIsAMistakeThatShows) {
  EXPECT_EQ(EndsAfter({3, 1, 1, 0, 2}, kFrontRules), 5U);
  EXPECT_EQ(EndsAfter({3, 1, 1, 0, 2}, FrontRulesWith(WorkerMistake::kEndBeforeReleased)), 0U);
}

TEST(ExchangesTest, AnExchangeIsOverWhenAllLanesHaveSpokenAndAllPiecesAreDone) {
  ExchangesForTest test(2);
  uint64_t serial = test.Begin(3);
  EXPECT_EQ(test.Sent<to_lane::Begin>().size(), 2U);
  EXPECT_EQ(test.Sent<to_lane::Begin>()[0].exchange->serial, serial);
  auto part = [&](uint32_t lane, uint32_t pieces) {
    return test.exchanges.OnPartDone(ExchangesForTest::PartOf(lane, serial, pieces, {0, 1}));
  };
  EXPECT_FALSE(part(0, 1).has_value());
  EXPECT_FALSE(part(1, 1).has_value()) << "a piece is between the lanes";
  auto end = part(0, 1);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->operation, kOperation);
  EXPECT_FALSE(end->withdrawn);
  EXPECT_TRUE(end->status.ok());
  EXPECT_EQ(end->receipt->List(), (std::vector<Slot>{0, 1}));
  EXPECT_FALSE(part(1, 1).has_value()) << "it is over";
}

TEST(ExchangesTest, ALaneThatIsDoneHasNotReleased) {
  ExchangesForTest test(1);
  uint64_t serial = test.Begin(1);
  EXPECT_FALSE(test.exchanges.OnReleased({0, serial, 7}).has_value()) << "nobody asked";
  EXPECT_FALSE(test.exchanges.Withdraw(serial).has_value());
  EXPECT_EQ(test.Sent<to_lane::Withdraw>().size(), 1U);
  EXPECT_FALSE(test.exchanges.OnPartDone(ExchangesForTest::PartOf(0, serial, 1, {0})).has_value());
  EXPECT_TRUE(test.exchanges.OnReleased({0, serial, 7}).has_value());
  EXPECT_FALSE(test.exchanges.OnReleased({0, serial, 7}).has_value()) << "it is over";
}

TEST(ExchangesTest, AnAtomicOneIsRepeatedUntilItHasOneReceipt) {
  ExchangesForTest test(2);
  uint64_t serial = test.Begin(2, true);
  auto parts = [&](const std::vector<Slot>& first, const std::vector<Slot>& second) {
    EXPECT_FALSE(
        test.exchanges.OnPartDone(ExchangesForTest::PartOf(0, serial, 1, first)).has_value());
    return test.exchanges.OnPartDone(ExchangesForTest::PartOf(1, serial, 1, second));
  };
  EXPECT_FALSE(parts({0, 1, 2}, {0, 1}).has_value());
  ASSERT_EQ(test.Sent<to_lane::Repeat>().size(), 2U) << "one to each lane";
  EXPECT_EQ(test.Sent<to_lane::Repeat>()[0].attempt, 1U);
  EXPECT_EQ(test.Sent<to_lane::Repeat>()[0].common->List(), (std::vector<Slot>{0, 1}));
  auto end = parts({0, 1}, {0, 1});
  ASSERT_TRUE(end.has_value());
  EXPECT_FALSE(end->mixed);
}

TEST(ExchangesTest, AnotherOneMayHaveTwoReceipts) {
  ExchangesForTest test(2);
  uint64_t serial = test.Begin(2);
  test.exchanges.OnPartDone(ExchangesForTest::PartOf(0, serial, 1, {0, 1, 2}));
  auto end = test.exchanges.OnPartDone(ExchangesForTest::PartOf(1, serial, 1, {0, 2}));
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->mixed);
  EXPECT_EQ(end->receipt->List(), (std::vector<Slot>{0, 2}));
  EXPECT_TRUE(test.Sent<to_lane::Repeat>().empty());
}

TEST(ExchangesTest, OneThatNoLaneCouldBeToldOfIsNotOpen) {
  ExchangesForTest test(1);
  uint64_t told = test.Begin(1);
  test.fails = true;
  EXPECT_THROW(test.Begin(1), std::bad_alloc);
  test.fails = false;
  test.sent.clear();
  test.exchanges.Abort(told + 1, {StatusCode::kDeadlineExceeded, "why"});
  EXPECT_TRUE(test.sent.empty());
  test.exchanges.Abort(told, {StatusCode::kDeadlineExceeded, "why"});
  EXPECT_EQ(test.sent.size(), 1U);
}

TEST(ExchangesTest, AnAbortIsAskedForWhileItIsOpen) {
  ExchangesForTest test(1);
  uint64_t serial = test.Begin(1);
  test.exchanges.Abort(serial, {StatusCode::kDeadlineExceeded, "too late"});
  ASSERT_EQ(test.Sent<to_lane::Abort>().size(), 1U);
  EXPECT_EQ(test.Sent<to_lane::Abort>()[0].tensor, 7U);
  test.exchanges.OnPartDone(ExchangesForTest::PartOf(0, serial, 1, {0}));
  test.exchanges.Abort(serial, {StatusCode::kDeadlineExceeded, "later"});
  EXPECT_EQ(test.Sent<to_lane::Abort>().size(), 1U);
}

TEST(ExchangesTest, TheTimeIsThatOfTheLastAnswerOfAnyLane) {
  ExchangesForTest test(2);
  to_front::PartDone part = ExchangesForTest::PartOf(0, 99, 1, {0});  // of no open exchange
  part.now = Time(milliseconds(5));
  test.exchanges.OnPartDone(part);
  part.now = Time(milliseconds(3));
  test.exchanges.OnPartDone(part);
  EXPECT_EQ(test.exchanges.now(), Time(milliseconds(5)));
}

}  // namespace
}  // namespace byteps::protocol
