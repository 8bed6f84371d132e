// Tests of how rounds bring verdicts to members.
#include <gtest/gtest.h>

#include <memory>

#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

class RoundsDeliveryTest : public testing::Test {
 protected:
  void SetView(const wire::View& view) { room.SetView(view); }
  Room room;
};

TEST_F(RoundsDeliveryTest, WhoWantsNothingIsAnsweredAfterThoseWhoDo) {
  Piece& piece = room.Decide(7, {4, 0, 4});
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 2}));
  room.rounds.NoteHolder(piece, 0);
  EXPECT_EQ(room.Answered().size(), 2u);
  room.rounds.NoteHolder(piece, 2);
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 2, 1}));
  EXPECT_FALSE(piece.verdict.stable()) << "worker 1 has not said that it knows";
}

TEST_F(RoundsDeliveryTest, WhenTheTensorIsDroppedIdleMembersAreAnsweredAtOnce) {
  Piece& piece = room.Decide(7, {4, 0, 4});
  room.rounds.Forget(piece);
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 2, 1}));
  EXPECT_TRUE(room.answers.due().has_value()) << "nobody has to keep it";
  room.rounds.Forget(piece);
  EXPECT_EQ(room.Answered().size(), 3u);
}

TEST_F(RoundsDeliveryTest, NobodyIsSentBytesThatAreNotInTheVerdict) {
  Piece& piece = room.Decide(7);
  Contribution greedy;
  greedy.want_offset = 3;
  greedy.want_bytes = 2;
  room.rounds.Answer(piece, {7, 0, 1}, 0, greedy);
  EXPECT_EQ(room.driver.answers.size(), 3u);
}

TEST_F(RoundsDeliveryTest, TheLastWhoLackedItMakesItStable) {
  Piece& piece = room.Decide(7);
  for (Slot slot : {0u, 0u, 2u}) {
    room.rounds.NoteHolder(piece, slot);
    EXPECT_FALSE(piece.verdict.stable());
  }
  EXPECT_FALSE(room.answers.due().has_value());
  room.rounds.NoteHolder(piece, 1);
  EXPECT_TRUE(piece.verdict.stable());
  EXPECT_TRUE(room.answers.due().has_value()) << "there is news of stability";
}

TEST_F(RoundsDeliveryTest, WhenTheOnlyOneWhoLacksItIsLostItIsStable) {
  Piece& piece = room.Decide(7, {4, 0, 4});
  room.rounds.NoteHolder(piece, 0);
  wire::View view = ViewFor(3, 1);
  Lose(view, 2);
  SetView(view);
  room.rounds.Recount(piece);
  EXPECT_FALSE(piece.verdict.stable()) << "worker 1 has not its answer yet";
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 2, 1})) << "nobody wants bytes any more";
  room.rounds.NoteHolder(piece, 1);
  EXPECT_TRUE(piece.verdict.stable());
}

// The root of a broadcast wants nothing, but has the bytes. No member waits for its
// acknowledgement.
TEST_F(RoundsDeliveryTest, WhoBroughtItAllKeepsNobodyWaiting) {
  Piece& piece = room.Open({7, 0, 1}, 4, Combine::kOverlay);
  room.Arrive(piece, 0, "root", 0);
  room.Arrive(piece, 1, "", 4);
  room.Arrive(piece, 2, "", 0);
  room.rounds.DecideIfPossible(piece);
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 1}));
  room.rounds.NoteHolder(piece, 1);
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 1, 2}));
}

// The member is answered although it need not hold the verdict, so the shard does not wait for it.
TEST_F(RoundsDeliveryTest, WhoIsNotInTheReceiptIsAnsweredBeforeItIsStable) {
  for (bool lost : {false, true}) {
    room.driver.answers.clear();
    Piece& piece = room.Decide(lost ? 8 : 7);
    auto two = std::make_shared<SlotSet>();
    for (Slot slot : {1u, 2u}) two->Insert(slot);
    piece.verdict.SetBytes(piece.verdict.terms(), two, room.members, room.pool.Take(4), 4);
    Contribution idle;
    idle.idle = true;
    room.rounds.Answer(piece, {piece.tensor, 0, 1}, 0, idle);
    room.rounds.NoteHolder(piece, 1);
    EXPECT_FALSE(piece.verdict.stable());
    EXPECT_EQ(room.driver.answers.size(), 3u);
    wire::View view = ViewFor(3, 1);
    if (lost) Lose(view, 2);
    SetView(view);
    lost ? room.rounds.Recount(piece) : room.rounds.NoteHolder(piece, 2);
    EXPECT_TRUE(piece.verdict.stable());
    EXPECT_EQ(room.driver.answers.size(), 4u);
    EXPECT_EQ(room.driver.answers.back().to, 0u);
  }
}

TEST_F(RoundsDeliveryTest, AnErrorConcernsWhoWantsNothingToo) {
  Piece& piece = room.Open({7, 0, 1}, 4);
  room.Arrive(piece, 1, "aaaa", 0);
  piece.round->Fail({StatusCode::kDeadlineExceeded, "late"});
  room.rounds.DecideIfPossible(piece);
  ASSERT_EQ(room.Answered(), (std::vector<Slot>{1}));
  EXPECT_EQ(ErrorIn(room.driver.answers[0]).message(), "late");
}

TEST_F(RoundsDeliveryTest, WhoHasLeftIsSentNothing) {
  Piece& piece = room.Open({7, 0, 1}, 4);
  for (Slot slot : {0u, 1u, 2u}) room.Arrive(piece, slot, "aaaa", 4);
  wire::View view = ViewFor(3, 1);
  ++view.epoch;
  view.workers[1].left = true;
  SetView(view);
  room.rounds.DecideIfPossible(piece);
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 2}));
}

TEST_F(RoundsDeliveryTest, AnotherMemberMaySayThatItIsStable) {
  Piece& piece = room.Decide(7);
  room.rounds.NoteStable(piece, 3);
  EXPECT_EQ(piece.verdict.round(), 3u);
  EXPECT_TRUE(piece.verdict.stable());
  EXPECT_TRUE(room.answers.due().has_value());
  while (room.answers.due().has_value()) room.answers.Tick(*room.answers.due());
  room.rounds.NoteStable(piece, 4);
  EXPECT_FALSE(room.answers.due().has_value()) << "nobody waited for that";
  EXPECT_EQ(piece.verdict.round(), 4u);
}

TEST_F(RoundsDeliveryTest, OfAnEncodedVerdictThereIsNothingButTheWhole) {
  Piece& piece = room.Decide(7);
  VerdictTerms terms = piece.verdict.terms();
  terms.codec = 9;
  piece.verdict.SetBytes(terms, room.members.everybody(), room.members, room.pool.Take(2), 2);
  Contribution wants;
  wants.want_bytes = 2;
  room.rounds.Answer(piece, {7, 0, 1}, 0, wants);
  EXPECT_EQ(room.driver.answers.size(), 3u) << "two of its four bytes";
  wants.want_bytes = 4;
  room.rounds.Answer(piece, {7, 0, 1}, 0, wants);
  ASSERT_EQ(room.driver.answers.size(), 4u);
  EXPECT_EQ(room.driver.answers.back().bytes.size(), 2u);
}

}  // namespace
}  // namespace byteps::protocol
