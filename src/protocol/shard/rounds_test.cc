// Rounds, Wants and PieceTable: what opens and ends a round, and who is asked for missing pieces.
#include "src/protocol/shard/rounds.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

TEST(PieceTableTest, FindsWhatIsKnownAndWhatIsOpen) {
  Room room;
  PieceTable& pieces = room.pieces;
  EXPECT_EQ(pieces.Find({7, 3, 1}), nullptr);
  pieces.At({7, 3, 1}, 0, 4);
  EXPECT_EQ(pieces.Find({7, 3, 9})->since, 4u) << "of any round";
  EXPECT_EQ(pieces.FindOpen({7, 3, 1}), nullptr);
  room.Open({7, 3, 2}, 1);
  EXPECT_NE(pieces.FindOpen({7, 3, 2}), nullptr);
  EXPECT_EQ(pieces.FindOpen({7, 3, 1}), nullptr) << "another round";
  pieces.Retire(7);
  EXPECT_TRUE(pieces.IsRetired(7));
  room.rounds.Drop(*pieces.Find({7, 3, 1}));
  pieces.EraseIf([](Piece& piece) { return piece.tensor == 7 && piece.index == 3; });
  EXPECT_EQ(pieces.Find({7, 3, 1}), nullptr);
}

TEST(RoundsTest, ASumIsDecidedWhenAllAreHere) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 1);
  room.Arrive(piece, 0, "\x01", 1);
  room.Arrive(piece, 1, "\x02", 1);
  room.rounds.DecideIfPossible(piece);
  EXPECT_EQ(room.rounds.open_count(), 1u);
  room.Arrive(piece, 2, "\x04", 1);
  room.rounds.DecideIfPossible(piece);
  EXPECT_EQ(room.rounds.open_count(), 0u);
  EXPECT_EQ(room.driver.answers.size(), 3u);
  EXPECT_EQ(room.driver.answers[0].bytes, "\x07");
  EXPECT_EQ(piece.verdict.receipt(), room.members.everybody()) << "one object for all verdicts";
}

TEST(RoundsTest, AnErrorWaitsUntilTheSumBeforeIsStable) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 1);
  for (Slot slot : {0u, 1u, 2u}) room.Arrive(piece, slot, "\x01", 1);
  room.rounds.DecideIfPossible(piece);
  room.Open({7, 0, 2}, 1);
  room.Arrive(piece, 0, "\x01", 1);
  piece.round->Fail({StatusCode::kDeadlineExceeded, "late"});
  room.rounds.DecideIfPossible(piece);
  EXPECT_EQ(room.rounds.open_count(), 1u);
  for (Slot slot : {0u, 1u, 2u}) room.rounds.NoteHolder(piece, slot);
  EXPECT_EQ(room.rounds.open_count(), 0u) << "decided with the last of them";
  EXPECT_TRUE(piece.verdict.IsError());
}

TEST(RoundsTest, AnErrorWaitsForWhatMembersMayHold) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 1);
  piece.since = 3;  // it came from another shard
  room.Arrive(piece, 0, "\x01", 1);
  piece.round->Fail({StatusCode::kDeadlineExceeded, "late"});
  room.members.NoteResync(0, 3);
  room.members.NoteResync(1, 3);
  room.rounds.DecideIfPossible(piece);
  EXPECT_EQ(room.rounds.open_count(), 1u);
  room.members.NoteResync(2, 3);
  room.rounds.DecideIfPossible(piece);
  EXPECT_TRUE(piece.verdict.IsError());
}

TEST(RoundsTest, OneTooManyFailsAndTwiceTooManyAreRefused) {
  Room room(ViewFor(3, 1), ShardOptions{.open_rounds_max = 1, .failing_rounds_max = 1});
  room.Open({1, 0, 1}, 1);
  EXPECT_FALSE(room.pieces.Find({1, 0, 1})->round->failure().has_value());
  EXPECT_EQ(room.Open({2, 0, 1}, 1).round->failure()->code(), StatusCode::kExhausted);
  Piece& third = room.pieces.At({3, 0, 1}, 0, 1);
  Status refused = room.rounds.Open(third, *room.sets.For(0, 0), PushOf({3, 0, 1}, 1), kStart);
  EXPECT_EQ(refused.code(), StatusCode::kExhausted);
  EXPECT_EQ(third.round, nullptr);
}

TEST(RoundsTest, ARoundThatIsDroppedAnswersNobody) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 1);
  room.Arrive(piece, 0, "\x01", 1);
  room.rounds.Drop(piece);
  room.rounds.Drop(piece);
  EXPECT_EQ(room.rounds.open_count(), 0u);
  EXPECT_TRUE(room.driver.answers.empty());
  EXPECT_EQ(room.pool.bytes_in_use(), 0u);
}

TEST(WantsTest, AskForWhatIsMissingAndAskAgain) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 1);
  room.Arrive(piece, 1, "\x01", 1);
  ASSERT_EQ(room.wants.NextTick(), std::optional<Time>(kStart + milliseconds(10)));
  room.wants.Tick(kStart + milliseconds(10));
  ASSERT_EQ(room.driver.wants.size(), 2u);
  EXPECT_EQ(room.driver.wants[0].first, 0u);
  EXPECT_EQ(room.driver.wants[1].first, 2u);
  EXPECT_EQ(room.wants.NextTick(), std::optional<Time>(kStart + milliseconds(1010)));
  room.rounds.Drop(piece);
  EXPECT_FALSE(room.wants.NextTick().has_value());
}

}  // namespace
}  // namespace byteps::protocol
