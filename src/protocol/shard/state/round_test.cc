#include "src/protocol/shard/state/round.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

TEST(RoundTest, CollectsContributionsAndGivesTheirBuffersBack) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 2);
  Round& round = *piece.round;
  EXPECT_EQ(round.missing(), 3u);
  room.Arrive(piece, 2, "ab", 2);
  room.Arrive(piece, 0, "cd", 0);
  EXPECT_EQ(round.missing(), 1u);
  EXPECT_EQ(round.order_of_arrival(), (std::vector<Slot>{2, 0}));
  EXPECT_TRUE(round.contributions()[0].idle);
  EXPECT_FALSE(round.contributions()[2].idle);
  round.End();
  EXPECT_EQ(room.pool.bytes_in_use(), 0u);
}

TEST(RoundTest, WhatWasNotWholeIsDropped) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 2);
  BufferRef keep;
  piece.round->PlaceOf(1, PushOf({7, 0, 1}, 2), 2, room.pool, keep);
  EXPECT_TRUE(room.attendance.AnyMemberIn(*piece.round));
  keep = BufferRef();
  piece.round->DropBegun(1);
  EXPECT_FALSE(room.attendance.AnyMemberIn(*piece.round));
  EXPECT_EQ(room.pool.bytes_in_use(), 0u);
  room.Arrive(piece, 1, "ab", 2);
  piece.round->DropBegun(1);
  EXPECT_TRUE(piece.round->HasArrived(1)) << "it is whole";
}

TEST(RoundTest, TheFirstErrorThatIsAskedForWins) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 2);
  piece.round->Fail({StatusCode::kDeadlineExceeded, "first"});
  piece.round->Fail({StatusCode::kDeadlineExceeded, "second"});
  EXPECT_EQ(piece.round->failure()->message(), "first");
}

TEST(RoundTest, TheRootOfABroadcastHasItAll) {
  Contribution contribution;
  wire::DataHeader header = PushOf({7, 0, 1}, 4, Combine::kOverlay);
  header.want_bytes = 0;
  Announce(contribution, header, 4);
  contribution.arrived = true;
  EXPECT_TRUE(contribution.HasAll());
  Announce(contribution, header, 2);
  EXPECT_TRUE(contribution.idle);
}

TEST(RoundTest, SpansAreLaidWhereTheyBelong) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 4, Combine::kOverlay);
  wire::DataHeader header = PushOf({7, 0, 1}, 4, Combine::kOverlay);
  BufferRef first, second;
  ByteSpan low = piece.round->PlaceOf(0, header, 1, room.pool, first);
  header.offset = 3;
  ByteSpan high = piece.round->PlaceOf(1, header, 1, room.pool, second);
  EXPECT_EQ(high.data(), low.data() + 3) << "one piece";
  EXPECT_EQ(first.data(), second.data());
  piece.round->Arrive(0, header, 1, true);
  piece.round->Arrive(1, header, 1, true);
  EXPECT_EQ(piece.round->pushed_bytes(), 2u);
  EXPECT_EQ(piece.round->overlay().data(), low.data());
}

TEST(RoundTest, WhoAbortsIsHereAndHasBroughtNothing) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 2);
  BufferRef keep;
  piece.round->PlaceOf(1, PushOf({7, 0, 1}, 2), 2, room.pool, keep);
  keep = BufferRef();
  EXPECT_FALSE(piece.round->LacksAPart());
  piece.round->ArriveAborted(1, PushOf({7, 0, 1}, 2), true);
  EXPECT_TRUE(piece.round->LacksAPart());
  EXPECT_TRUE(piece.round->HasArrived(1));
  EXPECT_TRUE(piece.round->contributions()[1].aborted);
  EXPECT_EQ(piece.round->missing(), 2u);
  EXPECT_EQ(piece.round->pushed_bytes(), 0u);
  EXPECT_EQ(room.pool.bytes_in_use(), 0u) << "what it had begun is no part";
}

TEST(RoundTest, WhoIsNotAwaitedIsNoneOfTheMissing) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 2);
  wire::View view = ViewFor(3, 1);
  Lose(view, 2);
  room.SetView(view);
  piece.round->SetMissing(room.attendance.CountMissing(*piece.round));
  room.Arrive(piece, 2, "ab", 2);
  EXPECT_EQ(piece.round->missing(), 2u);
  EXPECT_TRUE(piece.round->HasArrived(2)) << "its bytes are here all the same";
}

// Rounds are recycled.
TEST(RoundTest, NothingOfTheLastRoundIsInTheNext) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 2);
  uint64_t serial = piece.round->serial();
  room.Arrive(piece, 0, "ab", 2);
  piece.round->ArriveAborted(1, PushOf({7, 0, 1}, 2), true);
  piece.round->Fail({StatusCode::kDeadlineExceeded, "late"});
  room.rounds.Drop(piece);
  room.Open({8, 0, 1}, 2);
  const Round& next = *room.pieces.Find({8, 0, 1})->round;
  EXPECT_NE(next.serial(), serial);
  EXPECT_EQ(next.missing(), 3u);
  EXPECT_FALSE(next.failure().has_value());
  EXPECT_FALSE(next.LacksAPart());
  EXPECT_TRUE(next.order_of_arrival().empty());
  EXPECT_FALSE(next.HasArrived(0));
  EXPECT_EQ(next.pushed_bytes(), 0u);
}

}  // namespace
}  // namespace byteps::protocol
