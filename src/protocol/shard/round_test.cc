// Round, Combiner and Attendance: who takes part, what comes in, and what is made of it.
#include "src/protocol/shard/round.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/combiner.h"
#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

std::string TextOf(const Combiner::Combined& combined) {
  return {reinterpret_cast<const char*>(combined.buffer.data()), combined.bytes};
}

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

TEST(CombinerTest, CombinesInSlotOrderWhateverCameFirst) {
  Room room;
  for (std::vector<Slot> order : {std::vector<Slot>{0, 1, 2}, {2, 0, 1}}) {
    Piece& piece = room.Open({7, 0, 1}, 1);
    for (Slot slot : order) room.Arrive(piece, slot, std::string(1, static_cast<char>(slot)), 1);
    EXPECT_EQ(TextOf(room.combiner.Combine(*piece.round, 1).value()), "\x03");
    room.rounds.Drop(piece);
  }
}

TEST(CombinerTest, AveragesByTheDivisorAlsoOfOne) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 1, Combine::kAverage);
  room.Arrive(piece, 1, "\x0c", 1);
  EXPECT_EQ(TextOf(room.combiner.Combine(*piece.round, 4).value()), "\x03");
}

TEST(CombinerTest, TheLastOneIsTheLastWhoIsThere) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 1, Combine::kLast);
  room.Arrive(piece, 1, "b", 1);
  room.Arrive(piece, 2, "c", 1);
  EXPECT_EQ(TextOf(room.combiner.Combine(*piece.round, 1).value()), "c");
  wire::View view = ViewFor(3, 1);
  Lose(view, 2);
  room.SetView(view);
  EXPECT_EQ(TextOf(room.combiner.Combine(*piece.round, 1).value()), "b");
}

// Contributors of 2 and 1 ranks.
class DivisorTest : public testing::Test {
 protected:
  uint32_t DivisorOf(uint32_t set, const std::vector<Slot>& here) {
    Piece& piece = room.Open({7, 0, 1}, 1, Combine::kAverage, set);
    for (Slot slot : here) room.Arrive(piece, slot, "\x06", 1);
    uint32_t divisor = room.attendance.DivisorOf(piece);
    room.rounds.Drop(piece);
    return divisor;
  }
  wire::View view = ViewOfContributors({2, 1});
  Room room{view};
};

TEST_F(DivisorTest, CountsRanksOfAllWhoArePresent) { EXPECT_EQ(DivisorOf(0, {0, 1}), 3u); }

TEST_F(DivisorTest, WhoIsLostCountsWithAllItsRanksIfItsContributionIsHere) {
  Lose(view, 0);
  room.SetView(view);
  EXPECT_EQ(DivisorOf(0, {0, 1}), 3u);
  EXPECT_EQ(DivisorOf(0, {1}), 1u);
}

TEST_F(DivisorTest, WhoHasJoinedCountsWithAllItsRanks) {
  room.members.NoteJoin(0, 1);
  EXPECT_EQ(DivisorOf(0, {1}), 3u);
}

TEST_F(DivisorTest, OfAProcessSetOnlyItsRanksCount) {
  ASSERT_TRUE(room.sets.Tell(1, 5, BitmapOf({1, 2})).ok());
  EXPECT_EQ(DivisorOf(5, {0, 1}), 2u) << "rank 0 is not in it";
}

TEST(AttendanceTest, ARankThatHasLeftEndsTheRoundsThatItsContributorHasNotPushed) {
  wire::View view = ViewOfContributors({2, 1});
  view.workers[1].left = true;
  Room room(view);
  Piece& piece = room.Open({7, 0, 1}, 1);
  EXPECT_EQ(room.attendance.ErrorOf(piece)->code(), StatusCode::kPeerLost);
  EXPECT_EQ(room.attendance.ErrorOf(piece)->message().substr(0, 17), "worker 1 has left");
  room.Arrive(piece, 0, "\x01", 1);
  EXPECT_FALSE(room.attendance.ErrorOf(piece).has_value()) << "it has pushed";
  room.rounds.Drop(piece);
  ASSERT_TRUE(room.sets.Tell(0, 5, BitmapOf({0, 2})).ok());
  Piece& other = room.Open({8, 0, 1}, 1, Combine::kSum, 5);
  EXPECT_FALSE(room.attendance.ErrorOf(other).has_value()) << "rank 1 is not in it";
}

TEST(AttendanceTest, NamesTheRanksThatAreMissing) {
  Room room(ViewOfContributors({2, 1, 1}));
  Piece& piece = room.Open({7, 0, 1}, 1);
  room.Arrive(piece, 1, "\x01", 1);
  EXPECT_EQ(room.attendance.MissingRanks(piece, false), "0, 1, 3");
  EXPECT_EQ(room.attendance.PusherOf(*piece.round), "worker 2");
  room.members.NoteJoin(0, 1);
  EXPECT_EQ(room.attendance.MissingRanks(piece, true), "0, 1");
  EXPECT_FALSE(room.attendance.OnlyExemptMissing(piece));
  EXPECT_TRUE(room.attendance.IsWaitedFor(piece, 2));
  EXPECT_FALSE(room.attendance.IsWaitedFor(piece, 0));
  room.Arrive(piece, 2, "\x01", 1);
  EXPECT_TRUE(room.attendance.OnlyExemptMissing(piece));
  EXPECT_EQ(room.attendance.ConcernedBy(piece)->List(), (std::vector<Slot>{1, 2}));
  EXPECT_EQ(room.attendance.ReceiptOf(*piece.round)->List(), (std::vector<Slot>{1, 2}));
  EXPECT_FALSE(room.attendance.IsWholeSet(*piece.round));
}

}  // namespace
}  // namespace byteps::protocol
