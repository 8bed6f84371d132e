#include "src/protocol/worker/lane/piece_sender.h"

#include <gtest/gtest.h>

#include "src/protocol/worker/lane/lane_for_test.h"

namespace byteps::protocol {
namespace {

class PieceSenderTest : public LaneForTest {
 protected:
  PieceSenderTest() : lane(MakeContext()), tensor(lane.pieces.FindOrAdd(exchange.tensor)) {
    lane.pieces.Meet(tensor, exchange);
    tensor.exchange = &exchange;
    for (uint32_t number : {0U, 1U}) {
      LanePiece& piece = tensor.pieces[number];
      piece.spans = spans.SpansOf(number);
      piece.step = PieceStep::kUnderWay;
      piece.round = wire::RoundOf(1, 0);
    }
  }

  LaneContext& lane;
  LaneTensor& tensor;
  PieceSender sender{lane};
};

TEST_F(PieceSenderTest, AContributionGoesToTheOwnerWithAllThatItMustKnow) {
  exchange.priority = 3;
  lane.links.OnUp(1);
  lane.links.OnAnswer(1, 1, 0, Time());
  sender.Send(tensor, 1);
  ASSERT_EQ(driver.pushes.size(), 1U);
  const RecordingLaneDriver::Sent& sent = driver.pushes[0];
  EXPECT_EQ(sent.to, 1U);
  EXPECT_EQ(sent.bytes, "bbbb");
  EXPECT_EQ(sent.header.ref, (wire::PieceRef{7, 1, wire::RoundOf(1, 0)}));
  EXPECT_EQ(sent.header.home, 1U);
  EXPECT_EQ(sent.header.priority, 3);
  EXPECT_EQ(sent.header.epoch, 1U);
  EXPECT_EQ(sent.header.piece_bytes, 4U);
  EXPECT_EQ(sent.header.want_bytes, 4U);
  EXPECT_EQ(sent.header.encoded_bytes, 4U);
  EXPECT_EQ(sent.header.count, 1U);
  EXPECT_FALSE(lane.links.Owes(1)) << "it acknowledges";
}

TEST_F(PieceSenderTest, WhatStagesHaveMadeGoesInstead) {
  lane.links.OnUp(0);
  PieceBytes& encoded = tensor.pieces[0].contribution;
  encoded = {true, pool.Take(2), 0, 2};
  std::ranges::copy(std::as_bytes(std::span("zz", 2)), encoded.buffer.data());
  sender.Send(tensor, 0);
  EXPECT_EQ(driver.pushes.at(0).bytes, "zz");
  EXPECT_EQ(driver.pushes.at(0).header.encoded_bytes, 2U);
  EXPECT_EQ(driver.pushes.at(0).header.piece_bytes, 4U);
}

TEST_F(PieceSenderTest, InThePlaceOfAPushTheOwnerIsAskedForAnError) {
  lane.links.OnUp(0);
  tensor.pieces[0].failure = std::make_unique<Status>(StatusCode::kDeadlineExceeded, "too late");
  sender.Send(tensor, 0);
  EXPECT_TRUE(driver.pushes.empty());
  EXPECT_EQ(driver.aborts.at(0).bytes, "too late");
}

TEST_F(PieceSenderTest, AShardWithoutAConnectionGetsNothing) {
  sender.Send(tensor, 0);
  lane.links.OnUp(0);
  sender.SendDelayed();
  EXPECT_TRUE(driver.pushes.empty()) << "the connection's first word says it all again";
}

// Between a view and the pieces that it moves here, shards would not know which verdicts are held.
TEST_F(PieceSenderTest, WhileTheLaneIsToTakeOverPushesWait) {
  lane.links.OnUp(0);
  lane.links.OnUp(1);
  lane.awaits_take_over = true;
  sender.Send(tensor, 0);
  sender.Send(tensor, 1);
  EXPECT_TRUE(driver.pushes.empty());
  lane.awaits_take_over = false;
  tensor.pieces[1].step = PieceStep::kDone;  // it has ended meanwhile
  sender.SendDelayed();
  ASSERT_EQ(driver.pushes.size(), 1U);
  EXPECT_EQ(driver.pushes[0].header.ref.piece, 0U);
  sender.SendDelayed();
  EXPECT_EQ(driver.pushes.size(), 1U) << "once";
}

TEST_F(PieceSenderTest, OfTensorsThatAreRetiredMeanwhileNothingIsPushed) {
  lane.links.OnUp(0);
  lane.awaits_take_over = true;
  sender.Send(tensor, 0);
  lane.pieces.Retire(7);
  lane.awaits_take_over = false;
  sender.SendDelayed();
  EXPECT_TRUE(driver.pushes.empty());
}

}  // namespace
}  // namespace byteps::protocol
