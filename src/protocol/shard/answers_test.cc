// NumberedAnswers, Answers and VerdictDelivery: what leaves, and who is known to have it.
#include "src/protocol/shard/answers.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

TEST(NumberedAnswersTest, AnAcknowledgementStandsForAllBefore) {
  NumberedAnswers answers;
  for (uint32_t tensor = 1; tensor <= 3; ++tensor) {
    EXPECT_EQ(answers.Add({{tensor, 0, 1}, 1}), tensor);
  }
  EXPECT_EQ(answers.NextAcknowledged(2)->ref.tensor, 1u);
  EXPECT_EQ(answers.NextAcknowledged(2)->ref.tensor, 2u);
  EXPECT_FALSE(answers.NextAcknowledged(2).has_value());
  EXPECT_FALSE(answers.NextAcknowledged(1).has_value()) << "an old one";
  EXPECT_EQ(answers.NextAcknowledged(99)->ref.tensor, 3u);
  EXPECT_FALSE(answers.NextAcknowledged(99).has_value());
}

TEST(NumberedAnswersTest, OnlyTheOldestStableOnesAreForgotten) {
  NumberedAnswers answers;
  for (uint32_t tensor = 1; tensor <= 3; ++tensor) answers.Add({{tensor, 0, 1}, 1});
  auto is_not = [](uint32_t unstable) {
    return [unstable](const Answered& answered) { return answered.ref.tensor != unstable; };
  };
  EXPECT_EQ(answers.ForgetStable(is_not(2)), 1u);
  EXPECT_EQ(answers.NextAcknowledged(3)->ref.tensor, 2u) << "1 is forgotten";
  EXPECT_EQ(answers.ForgetStable(is_not(9)), 3u);
  EXPECT_FALSE(answers.NextAcknowledged(3).has_value());
}

TEST(NumberedAnswersTest, ANewConnectionCountsFromOne) {
  NumberedAnswers answers;
  answers.Add({{1, 0, 1}, 1});
  EXPECT_TRUE(answers.LookForNew());
  EXPECT_FALSE(answers.LookForNew());
  answers.NoteStableTold(1);
  answers.Restart();
  EXPECT_EQ(answers.stable_told(), 0u);
  EXPECT_EQ(answers.Add({{2, 0, 1}, 1}), 1u);
}

class AnswersTest : public testing::Test {
 protected:
  // A piece with a decided round of 4 bytes; all three have pushed.
  Piece& Decide(TensorId tensor, const std::vector<uint32_t>& wants = {4, 4, 4}) {
    Piece& piece = room.Open({tensor, 0, 1}, 4);
    for (Slot slot = 0; slot < 3; ++slot) room.Arrive(piece, slot, "aaaa", wants[slot]);
    room.rounds.DecideIfPossible(piece);
    return piece;
  }
  std::vector<Slot> Answered() const {
    std::vector<Slot> slots;
    for (const SentAnswer& answer : room.driver.answers) slots.push_back(answer.to);
    return slots;
  }
  Room room;
};

TEST_F(AnswersTest, WhoMayNotKnowTheViewIsToldTheReceipt) {
  room.members.NoteEpoch(1, 1);
  Decide(7);
  ASSERT_EQ(room.driver.answers.size(), 3u);
  EXPECT_EQ(room.driver.answers[1].header.receipt, 0u) << "all of a view that it has";
  EXPECT_GT(room.driver.answers[0].header.receipt, 0u);
  EXPECT_EQ(room.driver.answers[0].header.encoded_bytes, 4u) << "without the receipt";
}

TEST_F(AnswersTest, APortionSaysWhereItLies) {
  Piece& piece = Decide(7);
  room.answers.Send(piece, {7, 0, 1}, 0, {1, 2, 5});
  const SentAnswer& answer = room.driver.answers.back();
  EXPECT_EQ(answer.header.offset, 1u);
  EXPECT_EQ(answer.header.want_bytes, 2u);
  EXPECT_EQ(answer.header.priority, 5);
  EXPECT_EQ(answer.header.count, 2u);
}

TEST_F(AnswersTest, StabilityIsToldToWhoGetsNoAnswerThatCouldCarryIt) {
  Piece& piece = Decide(7);
  for (Slot slot = 0; slot < 3; ++slot) room.rounds.NoteHolder(piece, slot);
  EXPECT_TRUE(piece.verdict.stable());
  ASSERT_TRUE(room.answers.due().has_value());
  room.answers.Tick(*room.answers.due());
  EXPECT_TRUE(room.driver.stable.empty()) << "answers have left since the last look";
  ASSERT_TRUE(room.answers.due().has_value());
  room.answers.Tick(*room.answers.due());
  EXPECT_EQ(room.driver.stable.size(), 3u);
  EXPECT_FALSE(room.answers.due().has_value());
}

TEST_F(AnswersTest, WhoWantsNothingIsAnsweredAfterThoseWhoDo) {
  Piece& piece = Decide(7, {4, 0, 4});
  EXPECT_EQ(Answered(), (std::vector<Slot>{0, 2}));
  room.rounds.NoteHolder(piece, 0);
  EXPECT_EQ(Answered().size(), 2u);
  room.rounds.NoteHolder(piece, 2);
  EXPECT_EQ(Answered(), (std::vector<Slot>{0, 2, 1}));
  EXPECT_FALSE(piece.verdict.stable()) << "worker 1 has not said that it knows";
}

TEST_F(AnswersTest, WhenTheTensorIsDroppedIdleMembersAreAnsweredAtOnce) {
  Piece& piece = Decide(7, {4, 0, 4});
  room.delivery.AnswerIdleNow(piece);
  EXPECT_EQ(Answered(), (std::vector<Slot>{0, 2, 1}));
  room.delivery.AnswerIdleNow(piece);
  EXPECT_EQ(Answered().size(), 3u);
}

TEST_F(AnswersTest, NobodyIsSentBytesThatAreNotInTheVerdict) {
  Piece& piece = Decide(7);
  Contribution greedy;
  greedy.want_offset = 3;
  greedy.want_bytes = 2;
  room.delivery.Answer(piece, {7, 0, 1}, 0, greedy);
  EXPECT_EQ(room.driver.answers.size(), 3u);
}

}  // namespace
}  // namespace byteps::protocol
