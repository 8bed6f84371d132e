#include "src/protocol/worker/lane/exchange_part.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

class ExchangePartTest : public testing::Test {
 protected:
  ExchangePartTest() {
    exchange.serial = 5;
    exchange.tensor.id = 7;
    part.Begin(2, exchange);
  }

  static HeldVerdict VerdictOf(const std::vector<Slot>& slots) {
    auto receipt = std::make_shared<SlotSet>();
    for (Slot slot : slots) receipt->Insert(slot);
    HeldVerdict verdict;
    verdict.receipt = receipt;
    return verdict;
  }

  Exchange exchange;
  ExchangePart part;
};

TEST_F(ExchangePartTest, ALaneWithoutPiecesSaysSo) {
  EXPECT_TRUE(part.AllDone());
  to_front::PartDone told = part.Take(Time(milliseconds(3)));
  EXPECT_EQ(told.lane, 2U);
  EXPECT_EQ(told.serial, 5U);
  EXPECT_EQ(told.tensor, 7U);
  EXPECT_EQ(told.pieces, 0U);
  EXPECT_EQ(told.receipt, nullptr);
  EXPECT_EQ(told.now, Time(milliseconds(3)));
}

TEST_F(ExchangePartTest, WhatIsAddedIsDoneOrGoesAway) {
  part.Add(true);
  part.Add(false);
  part.Add(true);
  part.TakeBytes();
  part.Done(VerdictOf({0, 1}));
  EXPECT_TRUE(part.LacksBytes());
  part.Remove(true);
  EXPECT_FALSE(part.LacksBytes());
  EXPECT_FALSE(part.AllDone());
  part.Done(VerdictOf({0, 1}));
  EXPECT_TRUE(part.AllDone());
  EXPECT_EQ(part.Take({}).pieces, 2U) << "what went away counts in its new lane";
}

TEST_F(ExchangePartTest, TheReceiptIsOfThoseWhoAreInAllPieces) {
  part.Add(false);
  part.Count(VerdictOf({0, 1, 2}));  // from an earlier attempt
  part.Done(VerdictOf({0, 2}));
  to_front::PartDone told = part.Take({});
  EXPECT_EQ(told.pieces, 2U);
  EXPECT_TRUE(told.mixed);
  EXPECT_EQ(told.receipt->List(), (std::vector<Slot>{0, 2}));
}

TEST_F(ExchangePartTest, AnErrorHasNoReceiptAndTheFirstPieceSaysWhich) {
  HeldVerdict error;
  error.status = StatusCode::kPeerLost;
  for (uint32_t number : {4, 2, 3}) {
    part.Add(false);
    part.Fail(number, {StatusCode::kPeerLost, "piece " + std::to_string(number)});
    part.Done(error);
  }
  to_front::PartDone told = part.Take({});
  EXPECT_EQ(told.status.message(), "piece 2");
  EXPECT_EQ(told.failed_piece, 2U);
  EXPECT_EQ(told.receipt, nullptr);
  EXPECT_FALSE(told.mixed);
}

TEST_F(ExchangePartTest, ABeginForgetsWhatWasBefore) {
  part.Add(true);
  part.Fail(1, {StatusCode::kPeerLost, "gone"});
  exchange.serial = 6;
  part.Begin(2, exchange);
  EXPECT_TRUE(part.AllDone());
  EXPECT_FALSE(part.LacksBytes());
  to_front::PartDone told = part.Take({});
  EXPECT_TRUE(told.status.ok());
  EXPECT_EQ(told.serial, 6U);
}

}  // namespace
}  // namespace byteps::protocol
