#include "src/protocol/shard/state/piece_table.h"

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
  room.rounds.Drop(*pieces.Find({7, 3, 1}));
  pieces.EraseIf([](Piece& piece) { return piece.tensor == 7 && piece.index == 3; });
  EXPECT_EQ(pieces.Find({7, 3, 1}), nullptr);
}

TEST(PieceTableTest, PiecesStayWhereTheyAreUntilTheyAreErased) {
  PieceTable pieces;
  Piece* first = &pieces.At({7, 0, 1}, 0, 1);
  for (uint32_t index = 1; index < 1000; ++index) pieces.At({7, index, 1}, 0, 1);
  EXPECT_EQ(pieces.Find({7, 0, 1}), first);
  EXPECT_EQ(&pieces.At({7, 0, 5}, 2, 9), first) << "whatever the round";
  EXPECT_EQ(first->home, 2u);
  EXPECT_EQ(first->since, 9u);
  EXPECT_EQ(pieces.Find({8, 0, 1}), nullptr);
  size_t seen = 0;
  pieces.ForEach([&](Piece& piece) { seen += piece.tensor == 7 ? 1 : 0; });
  EXPECT_EQ(seen, 1000u);
}

TEST(PieceTableTest, CountsVerdictsThatSomebodyMayLack) {
  Room room;
  EXPECT_EQ(room.pieces.unstable_count(), 0u);
  Piece& piece = room.Decide(7);
  room.Decide(8);
  EXPECT_EQ(room.pieces.unstable_count(), 2u);
  for (Slot slot : {0u, 1u, 2u}) room.rounds.NoteHolder(piece, slot);
  EXPECT_EQ(room.pieces.unstable_count(), 1u);
}

TEST(PieceTableTest, OfARetiredTensorOnlyThoseStayThatSomebodyNeeds) {
  Room room;
  PieceTable& pieces = room.pieces;
  room.Decide(7);
  room.Open({7, 1, 1}, 1);
  pieces.At({7, 2, 1}, 0, 1);
  pieces.At({8, 0, 1}, 0, 1);
  pieces.Retire({7}, 3);
  pieces.At({7, 3, 1}, 0, 1);
  EXPECT_TRUE(pieces.IsRetired(7));
  EXPECT_FALSE(pieces.IsVoid({7, 0, wire::RoundOf(2, 1)}));
  EXPECT_TRUE(pieces.IsVoid({7, 0, wire::RoundOf(3, 0)}));
  EXPECT_FALSE(pieces.IsVoid({8, 0, wire::RoundOf(3, 0)}));
  pieces.EraseSettled([](const Piece&) { return true; });
  EXPECT_NE(pieces.Find({7, 0, 1}), nullptr) << "somebody may lack its verdict";
  EXPECT_NE(pieces.Find({7, 1, 1}), nullptr) << "a round is in progress";
  EXPECT_EQ(pieces.Find({7, 2, 1}), nullptr);
  EXPECT_EQ(pieces.Find({7, 3, 1}), nullptr) << "it came later";
  EXPECT_NE(pieces.Find({8, 0, 1}), nullptr);
  for (Slot slot : {0u, 1u, 2u}) room.rounds.NoteHolder(*pieces.Find({7, 0, 1}), slot);
  room.rounds.Drop(*pieces.Find({7, 1, 1}));
  pieces.EraseSettled([](const Piece&) { return false; });
  EXPECT_NE(pieces.Find({7, 0, 1}), nullptr) << "it may be asked for";
  pieces.EraseSettled([](const Piece&) { return true; });
  EXPECT_EQ(pieces.Find({7, 0, 1}), nullptr);
  EXPECT_EQ(pieces.Find({7, 1, 1}), nullptr);
}

TEST(PieceTableTest, AGenerationForgetsAll) {
  PieceTable pieces;
  pieces.At({7, 0, 1}, 0, 1);
  pieces.Retire({7}, 3);
  EXPECT_FALSE(pieces.IsRetired(8));
  pieces.Clear();
  EXPECT_EQ(pieces.Find({7, 0, 1}), nullptr);
  EXPECT_FALSE(pieces.IsRetired(7)) << "numbers are not used again, but it costs room";
}

}  // namespace
}  // namespace byteps::protocol
