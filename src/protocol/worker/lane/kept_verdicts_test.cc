#include "src/protocol/worker/lane/kept_verdicts.h"

#include <gtest/gtest.h>

#include "src/protocol/worker/lane/lane_for_test.h"
#include "src/protocol/worker/worker_mistakes_for_test.h"

namespace byteps::protocol {
namespace {

class KeptVerdictsTest : public LaneForTest {
 protected:
  // Ends the first piece of the exchange here, with a verdict that others may lack.
  LanePiece& Hold() {
    LaneContext& lane = MakeContext();
    tensor = &lane.pieces.FindOrAdd(exchange.tensor);
    lane.pieces.Meet(*tensor, exchange);
    tensor->exchange = &exchange;
    LanePiece& piece = tensor->pieces[0];
    piece.spans = spans.SpansOf(0);
    piece.held.round = 256;
    piece.held.stable = false;
    piece.held.piece_bytes = SpansForTest::kPieceBytes;
    piece.held.receipt = WorkersOf(view);
    return piece;
  }

  static std::string CopyOf(const LanePiece& piece) {
    return {reinterpret_cast<const char*>(piece.copy.data()), piece.copy_bytes};
  }

  LaneTensor* tensor = nullptr;
};

TEST_F(KeptVerdictsTest, AVerdictIsCopiedOutOfTheUsersMemoryOnce) {
  LanePiece& piece = Hold();
  KeepVerdict(*made, piece);
  EXPECT_EQ(CopyOf(piece), "aaaa");
  memory[0] = std::byte{'z'};  // belongs to the user again
  KeepVerdict(*made, piece);
  EXPECT_EQ(CopyOf(piece), "aaaa");
}

TEST_F(KeptVerdictsTest, ThereIsNothingToCopyOfAnErrorOrWithoutBytesOrEncoded) {
  for (int i = 0; i < 4; ++i) {
    LanePiece& piece = Hold();
    if (i == 0) piece.held.status = StatusCode::kPeerLost;
    if (i == 1) piece.held.empty = true;
    if (i == 2) piece.held.piece_bytes = 0;
    if (i == 3) piece.held.codec = 1;  // it was kept when it came, encoded
    KeepVerdict(*made, piece);
    EXPECT_FALSE(piece.copy) << i;
  }
}

TEST_F(KeptVerdictsTest, WhatIsStableOrNotDoneIsNotKept) {
  Hold();
  tensor->pieces[0].held.stable = true;
  tensor->pieces[1].step = PieceStep::kUnderWay;
  tensor->pieces[1].held.stable = false;
  tensor->pieces[1].held.piece_bytes = 4;
  KeepVerdicts(*made, exchange, *tensor);
  EXPECT_EQ(pool.bytes_in_use(), 0U);
  tensor->pieces[0].held.stable = false;
  KeepVerdicts(*made, exchange, *tensor);
  EXPECT_EQ(CopyOf(tensor->pieces[0]), "aaaa");
}

TEST_F(KeptVerdictsTest, NotToKeepIsAMistakeThatLosesTheVerdict) {
  options.rules = &LaneRulesWith(WorkerMistake::kHandOverWithoutKeeping);
  Hold();
  KeepVerdicts(*made, exchange, *tensor);
  tensor->exchange = nullptr;
  TellVerdict(*made, *tensor, 0);
  EXPECT_TRUE(driver.verdicts.empty());
}

TEST_F(KeptVerdictsTest, TheOwnerIsToldWithAReceiptOfItsOwn) {
  LanePiece& piece = Hold();
  TellVerdict(*made, *tensor, 0);
  ASSERT_EQ(driver.verdicts.size(), 1U);
  const RecordingLaneDriver::Sent& told = driver.verdicts[0];
  EXPECT_EQ(told.to, 0U);
  EXPECT_EQ(told.header.ref, (wire::PieceRef{7, 0, 256}));
  EXPECT_EQ(told.header.receipt, 8U) << "the owner may be in another view";
  EXPECT_EQ(told.header.piece_bytes, 4U);
  EXPECT_EQ(told.bytes, std::string("\x03\0\0\0\0\0\0\0aaaa", 12));
  EXPECT_TRUE(piece.held.told);
}

TEST_F(KeptVerdictsTest, AnErrorIsToldWithItsRowAndAnEmptyVerdictWithoutBytes) {
  LanePiece& error = Hold();
  error.held.status = StatusCode::kPeerLost;
  error.copy = pool.Take(4);  // the row of errors, as received
  error.copy_bytes = 4;
  std::ranges::copy(std::as_bytes(std::span("errs", 4)), error.copy.data());
  TellVerdict(*made, *tensor, 0);
  EXPECT_EQ(driver.verdicts.at(0).header.status, StatusCode::kPeerLost);
  EXPECT_EQ(driver.verdicts.at(0).bytes.substr(8), "errs");
  LanePiece& empty = Hold();
  empty.held.empty = true;
  TellVerdict(*made, *tensor, 0);
  EXPECT_EQ(driver.verdicts.at(1).header.want_bytes, 0U);
  EXPECT_EQ(driver.verdicts.at(1).header.piece_bytes, 4U);
  EXPECT_EQ(driver.verdicts.at(1).bytes.size(), 8U);
}

TEST_F(KeptVerdictsTest, WhoNeitherWantsNorPushesAllOfAPieceHasNothingOfIt) {
  Spans whole = spans.SpansOf(0);
  Spans pushes = whole;
  pushes.want = {};
  Spans part = pushes;
  part.push = part.push.first(2);
  TensorFacts sum{7, Combine::kSum};
  TensorFacts overlay{7, Combine::kOverlay};
  EXPECT_FALSE(IsVerdictEmpty(sum, whole));
  EXPECT_TRUE(IsVerdictEmpty(sum, pushes)) << "its summand is not the sum";
  EXPECT_FALSE(IsVerdictEmpty(overlay, pushes)) << "a root has all";
  EXPECT_TRUE(IsVerdictEmpty(overlay, part));
  EXPECT_FALSE(IsVerdictEmpty(sum, Spans())) << "a piece of no bytes";
}

}  // namespace
}  // namespace byteps::protocol
