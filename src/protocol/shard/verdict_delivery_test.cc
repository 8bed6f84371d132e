#include "src/protocol/shard/verdict_delivery.h"

#include <gtest/gtest.h>

#include <memory>

#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

class DeliveryTest : public testing::Test {
 protected:
  void SetView(const wire::View& view) { room.SetView(view); }
  Room room;
};

TEST_F(DeliveryTest, WhoWantsNothingIsAnsweredAfterThoseWhoDo) {
  Piece& piece = room.Decide(7, {4, 0, 4});
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 2}));
  room.rounds.NoteHolder(piece, 0);
  EXPECT_EQ(room.Answered().size(), 2u);
  room.rounds.NoteHolder(piece, 2);
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 2, 1}));
  EXPECT_FALSE(piece.verdict.stable()) << "worker 1 has not said that it knows";
}

TEST_F(DeliveryTest, WhenTheTensorIsDroppedIdleMembersAreAnsweredAtOnce) {
  Piece& piece = room.Decide(7, {4, 0, 4});
  room.delivery.Drop(piece);
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 2, 1}));
  EXPECT_TRUE(room.answers.due().has_value()) << "nobody has to keep it";
  room.delivery.Drop(piece);
  EXPECT_EQ(room.Answered().size(), 3u);
}

TEST_F(DeliveryTest, NobodyIsSentBytesThatAreNotInTheVerdict) {
  Piece& piece = room.Decide(7);
  Contribution greedy;
  greedy.want_offset = 3;
  greedy.want_bytes = 2;
  room.delivery.Answer(piece, {7, 0, 1}, 0, greedy);
  EXPECT_EQ(room.driver.answers.size(), 3u);
}

TEST_F(DeliveryTest, TheLastWhoLackedItMakesItStable) {
  Piece& piece = room.Decide(7);
  EXPECT_FALSE(room.delivery.NoteHolder(piece, 0, 1));
  EXPECT_FALSE(room.delivery.NoteHolder(piece, 0, 1)) << "known";
  EXPECT_FALSE(room.delivery.NoteHolder(piece, 2, 1));
  EXPECT_FALSE(room.answers.due().has_value());
  EXPECT_TRUE(room.delivery.NoteHolder(piece, 1, 1));
  EXPECT_TRUE(piece.verdict.stable());
  EXPECT_TRUE(room.answers.due().has_value()) << "there is news of stability";
}

TEST_F(DeliveryTest, WhenTheOnlyOneWhoLacksItIsLostItIsStable) {
  Piece& piece = room.Decide(7, {4, 0, 4});
  room.delivery.NoteHolder(piece, 0, 1);
  wire::View view = ViewFor(3, 1);
  Lose(view, 2);
  SetView(view);
  EXPECT_FALSE(room.delivery.Recount(piece)) << "worker 1 has not its answer yet";
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 2, 1})) << "nobody wants bytes any more";
  EXPECT_TRUE(room.delivery.NoteHolder(piece, 1, 1));
}

// The root of a broadcast wants nothing, but has the bytes. No member waits for its
// acknowledgement.
TEST_F(DeliveryTest, WhoBroughtItAllKeepsNobodyWaiting) {
  Piece& piece = room.Open({7, 0, 1}, 4, Combine::kOverlay);
  room.Arrive(piece, 0, "root", 0);
  room.Arrive(piece, 1, "", 4);
  room.Arrive(piece, 2, "", 0);
  room.rounds.DecideIfPossible(piece);
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 1}));
  room.delivery.NoteHolder(piece, 1, 1);
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 1, 2}));
}

// The member is answered although it need not hold the verdict, so the shard does not wait for it.
TEST_F(DeliveryTest, WhoIsNotInTheReceiptIsAnsweredBeforeItIsStable) {
  for (bool lost : {false, true}) {
    room.driver.answers.clear();
    Piece& piece = room.Decide(lost ? 8 : 7);
    auto two = std::make_shared<SlotSet>();
    for (Slot slot : {1u, 2u}) two->Insert(slot);
    piece.verdict.SetBytes(piece.verdict.terms(), two, room.members, room.pool.Take(4), 4);
    Contribution idle;
    idle.idle = true;
    room.delivery.Answer(piece, {piece.tensor, 0, 1}, 0, idle);
    EXPECT_FALSE(room.delivery.NoteHolder(piece, 1, 1));
    EXPECT_EQ(room.driver.answers.size(), 3u);
    wire::View view = ViewFor(3, 1);
    if (lost) Lose(view, 2);
    SetView(view);
    EXPECT_TRUE(lost ? room.delivery.Recount(piece) : room.delivery.NoteHolder(piece, 2, 1));
    EXPECT_EQ(room.driver.answers.size(), 4u);
    EXPECT_EQ(room.driver.answers.back().to, 0u);
  }
}

TEST_F(DeliveryTest, AnErrorConcernsWhoWantsNothingToo) {
  Piece& piece = room.Open({7, 0, 1}, 4);
  room.Arrive(piece, 1, "aaaa", 0);
  piece.round->Fail({StatusCode::kDeadlineExceeded, "late"});
  room.rounds.DecideIfPossible(piece);
  ASSERT_EQ(room.Answered(), (std::vector<Slot>{1}));
  EXPECT_EQ(ErrorIn(room.driver.answers[0]).message(), "late");
}

TEST_F(DeliveryTest, WhoHasLeftIsSentNothing) {
  Piece& piece = room.Open({7, 0, 1}, 4);
  for (Slot slot : {0u, 1u, 2u}) room.Arrive(piece, slot, "aaaa", 4);
  wire::View view = ViewFor(3, 1);
  ++view.epoch;
  view.workers[1].left = true;
  SetView(view);
  room.rounds.DecideIfPossible(piece);
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 2}));
}

TEST_F(DeliveryTest, AnotherMemberMaySayThatItIsStable) {
  Piece& piece = room.Decide(7);
  EXPECT_TRUE(room.delivery.NoteStable(piece, 3));
  EXPECT_EQ(piece.verdict.round(), 3u);
  EXPECT_TRUE(piece.verdict.stable());
  EXPECT_FALSE(room.delivery.NoteStable(piece, 4)) << "nobody waited for that";
  EXPECT_EQ(piece.verdict.round(), 4u);
}

TEST_F(DeliveryTest, OfAnEncodedVerdictThereIsNothingButTheWhole) {
  Piece& piece = room.Decide(7);
  VerdictTerms terms = piece.verdict.terms();
  terms.codec = 9;
  piece.verdict.SetBytes(terms, room.members.everybody(), room.members, room.pool.Take(2), 2);
  Contribution wants;
  wants.want_bytes = 2;
  room.delivery.Answer(piece, {7, 0, 1}, 0, wants);
  EXPECT_EQ(room.driver.answers.size(), 3u) << "two of its four bytes";
  wants.want_bytes = 4;
  room.delivery.Answer(piece, {7, 0, 1}, 0, wants);
  ASSERT_EQ(room.driver.answers.size(), 4u);
  EXPECT_EQ(room.driver.answers.back().bytes.size(), 2u);
}

}  // namespace
}  // namespace byteps::protocol
