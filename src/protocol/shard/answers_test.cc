#include "src/protocol/shard/answers.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

class AnswersTest : public testing::Test {
 protected:
  void AllHold(Piece& piece) {
    for (Slot slot = 0; slot < 3; ++slot) room.rounds.NoteHolder(piece, slot);
  }
  Room room;
};

TEST_F(AnswersTest, WhoMayNotKnowTheViewIsToldTheReceipt) {
  room.members.NoteEpoch(1, 1);
  room.Decide(7);
  ASSERT_EQ(room.driver.answers.size(), 3u);
  EXPECT_EQ(room.driver.answers[1].header.receipt, 0u) << "all of a view that it has";
  EXPECT_GT(room.driver.answers[0].header.receipt, 0u);
  EXPECT_EQ(room.driver.answers[0].header.encoded_bytes, 4u) << "without the receipt";
}

TEST_F(AnswersTest, APortionSaysWhereItLies) {
  Piece& piece = room.Decide(7);
  room.answers.Send(piece, {7, 0, 1}, 0, {1, 2, 5});
  const SentAnswer& answer = room.driver.answers.back();
  EXPECT_EQ(answer.header.offset, 1u);
  EXPECT_EQ(answer.header.want_bytes, 2u);
  EXPECT_EQ(answer.header.priority, 5);
  EXPECT_EQ(answer.header.count, 2u);
}

TEST_F(AnswersTest, StabilityIsToldToWhoGetsNoAnswerThatCouldCarryIt) {
  Piece& piece = room.Decide(7);
  AllHold(piece);
  EXPECT_TRUE(piece.verdict.stable());
  ASSERT_TRUE(room.answers.due().has_value());
  room.answers.Tick(*room.answers.due());
  EXPECT_TRUE(room.driver.stable.empty()) << "answers have left since the last look";
  ASSERT_TRUE(room.answers.due().has_value());
  room.answers.Tick(*room.answers.due());
  EXPECT_EQ(room.driver.stable.size(), 3u);
  EXPECT_FALSE(room.answers.due().has_value());
}

TEST_F(AnswersTest, AnAnswerSaysHowManyAreNotWithEverybody) {
  Piece& first = room.Decide(7);
  Piece& second = room.Decide(8);
  room.answers.Send(second, {8, 0, 1}, 0, {0, 4, 0});
  EXPECT_EQ(room.driver.answers.back().header.unstable, 3u);
  AllHold(second);
  room.answers.Send(first, {7, 0, 1}, 0, {0, 4, 0});
  EXPECT_EQ(room.driver.answers.back().header.unstable, 4u) << "the first one holds them back";
  AllHold(first);
  room.answers.Confirm(first, {7, 0, 1}, 0);
  EXPECT_EQ(room.driver.answers.back().header.count, 5u);
  EXPECT_EQ(room.driver.answers.back().header.unstable, 0u);
}

// The earlier answers are from an earlier stay of the piece. The verdict that is kept now says
// nothing about them.
TEST_F(AnswersTest, AnAnswerOfAnEarlierStayIsStable) {
  Piece& piece = room.Decide(7);
  piece.since = 9;
  room.answers.Confirm(piece, {7, 0, 1}, 0);
  EXPECT_EQ(room.driver.answers.back().header.unstable, 1u) << "only this one";
}

TEST_F(AnswersTest, TheReceiptOfAProcessSetIsToldToWhoMayNotKnowTheView) {
  ASSERT_TRUE(room.sets.Tell(0, 5, BitmapOf({0, 2})).ok());
  for (Slot slot : {0u, 1u, 2u}) room.members.NoteEpoch(slot, 1);
  Piece& piece = room.Open({7, 0, 1}, 1, Combine::kSum, 5);
  for (Slot slot : {0u, 2u}) room.Arrive(piece, slot, "a", 1);
  room.rounds.DecideIfPossible(piece);
  ASSERT_EQ(room.Answered(), (std::vector<Slot>{0, 2}));
  EXPECT_EQ(room.driver.answers[0].header.receipt, 0u) << "the whole set, whose ranks it knows";
  room.answers.ForgetConnection(0);
  room.members.ForgetConnection(0);
  room.answers.Send(piece, {7, 0, 1}, 0, {0, 1, 0});
  EXPECT_GT(room.driver.answers.back().header.receipt, 0u);
  EXPECT_EQ(room.driver.answers.back().header.count, 1u) << "a new connection counts from 1";
}

TEST_F(AnswersTest, AnErrorIsToldAsItWasInTheRoundThatIsAnswered) {
  Piece& piece = room.Open({7, 0, 1}, 1);
  for (uint64_t round : {1u, 2u}) {
    if (round > 1) room.Open({7, 0, round}, 1);
    piece.round->Fail({StatusCode::kDeadlineExceeded, "round " + std::to_string(round)});
    room.rounds.DecideIfPossible(piece);
  }
  room.answers.SendError(piece, {7, 0, 1}, 0, 3);
  EXPECT_EQ(ErrorIn(room.driver.answers.back()).message(), "round 1");
  EXPECT_EQ(room.driver.answers.back().header.priority, 3);
  room.answers.SendError(piece, {7, 0, 2}, 0, 0);
  EXPECT_EQ(ErrorIn(room.driver.answers.back()).message(), "round 2");
}

TEST_F(AnswersTest, AGenerationBeginsWithoutNews) {
  Piece& piece = room.Decide(7);
  AllHold(piece);
  EXPECT_TRUE(room.answers.HasAnswered(0, {7, 0, 1}));
  room.answers.SetSlots(3, true);
  EXPECT_FALSE(room.answers.due().has_value());
  EXPECT_EQ(room.answers.sent(0), 0u);
  EXPECT_FALSE(room.answers.HasAnswered(0, {7, 0, 1}));
}

}  // namespace
}  // namespace byteps::protocol
