#include "src/protocol/shard/piece_review.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

class PieceReviewTest : public testing::Test {
 protected:
  Room room;
};

TEST_F(PieceReviewTest, WhatIsCompleteWithoutThoseWhoWentIsDecided) {
  Piece& piece = room.Open({7, 0, 1}, 1);
  for (Slot slot : {0u, 1u}) room.Arrive(piece, slot, "\x01", 1);
  wire::View view = ViewFor(3, 1);
  Lose(view, 2);
  room.SetView(view);
  ReviewPieces(room.state, 1);
  ASSERT_EQ(room.driver.answers.size(), 2u);
  EXPECT_EQ(room.driver.answers[0].bytes, "\x02");
}

// A round for which an error was asked does not need the error any more.
TEST_F(PieceReviewTest, ASumIsBetterThanTheErrorThatWasAskedFor) {
  Piece& piece = room.Open({7, 0, 1}, 1);
  for (Slot slot : {0u, 1u, 2u}) room.Arrive(piece, slot, "\x01", 1);
  room.rounds.DecideIfPossible(piece);
  for (Slot slot : {0u, 1u}) room.rounds.NoteHolder(piece, slot);
  room.Open({7, 0, 2}, 1);
  for (Slot slot : {0u, 1u}) room.Arrive(piece, slot, "\x02", 1);
  piece.round->Fail({StatusCode::kDeadlineExceeded, "late"});
  wire::View view = ViewFor(3, 1);
  Lose(view, 2);  // it lacked the first sum, and its part of the second
  room.SetView(view);
  ReviewPieces(room.state, 1);
  EXPECT_EQ(room.driver.answers.back().bytes, "\x04");
  EXPECT_FALSE(piece.verdict.IsError());
}

TEST_F(PieceReviewTest, PiecesOfOthersAreDropped) {
  wire::View view = ViewFor(3, 1);
  view.epoch = 5;
  view.servers[0].since = 5;  // away and back
  room.Open({7, 0, 1}, 1);
  room.SetView(view);
  ReviewPieces(room.state, 1);
  EXPECT_EQ(room.pieces.Find({7, 0, 1}), nullptr);
  EXPECT_EQ(room.rounds.open_count(), 0u);
}

TEST_F(PieceReviewTest, TensorsThatNobodyKnowsAreDropped) {
  for (TensorId tensor : {6u, 7u, 8u}) room.Open({tensor, 0, 1}, 1);
  DropUnknown(room.state, {7, 9, {8}});
  EXPECT_EQ(room.pieces.Find({7, 0, 1}), nullptr);
  EXPECT_EQ(room.rounds.open_count(), 2u);
}

TEST_F(PieceReviewTest, WhatNobodyKnowsIsNoBurdenToWhoHoldsIt) {
  room.Decide(7);
  DropUnknown(room.state, {7, 8, {}});
  EXPECT_EQ(room.pieces.Find({7, 0, 1}), nullptr);
  ASSERT_TRUE(room.answers.due().has_value()) << "they hear that it is stable";
}

TEST_F(PieceReviewTest, OfAForgottenTensorNothingIsLeft) {
  for (TensorId tensor : {7u, 8u}) room.Open({tensor, 0, 1}, 1);
  Piece& retired = room.Decide(9);
  EXPECT_FALSE(retired.verdict.stable());
  RetireTensors(room.state, {9}, 5);
  ForgetTensors(room.state, {7, 9});
  for (TensorId tensor : {7u, 9u}) {
    EXPECT_EQ(room.pieces.Find({tensor, 0, 1}), nullptr);
    EXPECT_TRUE(room.pieces.IsForgotten(tensor));
  }
  EXPECT_FALSE(room.pieces.IsRetired(9));
  EXPECT_NE(room.pieces.Find({8, 0, 1}), nullptr);
  EXPECT_FALSE(room.pieces.IsForgotten(8));
  EXPECT_EQ(room.rounds.open_count(), 1u);
  room.pieces.Clear();
  EXPECT_FALSE(room.pieces.IsForgotten(7)) << "a generation";
}

TEST_F(PieceReviewTest, OfARetiredTensorOnlyTheRoundsFromThereOnAreDropped) {
  for (uint32_t piece : {0u, 1u}) {
    room.Open({7, piece, wire::RoundOf(piece + 4, 0)}, 1);
  }
  room.Open({8, 0, wire::RoundOf(9, 0)}, 1);
  RetireTensors(room.state, {7}, 5);
  EXPECT_TRUE(room.pieces.IsRetired(7));
  EXPECT_FALSE(room.pieces.IsRetired(8));
  EXPECT_NE(room.pieces.FindOpen({7, 0, wire::RoundOf(4, 0)}), nullptr);
  EXPECT_EQ(room.pieces.Find({7, 1, wire::RoundOf(5, 0)}), nullptr);
  EXPECT_EQ(room.rounds.open_count(), 2u);
}

TEST_F(PieceReviewTest, AVerdictOfARetiredTensorIsKeptUntilAllHaveIt) {
  Piece& piece = room.Decide(7);
  for (Slot slot : {0u, 1u, 2u}) room.members.NoteResync(slot, 1);
  RetireTensors(room.state, {7}, 5);
  for (Slot slot : {0u, 1u}) room.rounds.NoteHolder(piece, slot);
  ReviewRetired(room.state);
  ASSERT_EQ(room.pieces.Find({7, 0, 1}), &piece) << "its answer is on its way to member 2";
  room.rounds.NoteHolder(piece, 2);
  ReviewRetired(room.state);
  EXPECT_EQ(room.pieces.Find({7, 0, 1}), nullptr);
}

// One member has got the verdict of the round that fails with the name. No other member waits for
// it.
TEST_F(PieceReviewTest, AVerdictOfTheRoundThatFailsIsNotKept) {
  Piece& piece = room.Decide(7);
  room.rounds.NoteHolder(piece, 0);
  for (Slot slot : {1u, 2u}) {
    room.answers.ForgetConnection(slot);
    room.members.ForgetConnection(slot);
  }
  RetireTensors(room.state, {7}, 0);
  room.members.NoteResync(1, 1);
  ReviewRetired(room.state);
  EXPECT_NE(room.pieces.Find({7, 0, 1}), nullptr) << "member 2 has not said all";
  room.members.NoteResync(2, 1);
  ReviewRetired(room.state);
  EXPECT_EQ(room.pieces.Find({7, 0, 1}), nullptr);
}

}  // namespace
}  // namespace byteps::protocol
