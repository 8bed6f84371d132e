#include "src/protocol/shard/state/attendance.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

// The contributors have 2 ranks and 1 rank.
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
  EXPECT_EQ(room.attendance.MissingRanks(piece, false),
            "(0, 1), 3; of ranks in brackets, which sum together, one at least is missing");
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

TEST(AttendanceTest, ALongListOfRanksIsCut) {
  Room room(ViewOfContributors({20, 1}));
  Piece& piece = room.Open({7, 0, 1}, 1);
  EXPECT_EQ(room.attendance.MissingRanks(piece, false),
            "(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) and 5 more; of ranks in "
            "brackets, which sum together, one at least is missing");
}

TEST(AttendanceTest, WhoseJoinMayHaveCrossedItsVerdictIsNotExempt) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 1);
  piece.since = 3;  // it came from another shard
  room.members.NoteJoin(0, 1);
  EXPECT_TRUE(room.attendance.MayBeExempt(*piece.round));
  EXPECT_FALSE(room.attendance.IsExempt(piece, 0));
  EXPECT_TRUE(room.attendance.IsWaitedFor(piece, 0));
  room.members.NoteResync(0, 3);
  EXPECT_TRUE(room.attendance.IsExempt(piece, 0));
}

TEST(AttendanceTest, AMachineNeedNotComeWhereAllItsRanksOfTheProcessSetHaveJoined) {
  Room room(ViewOfContributors({2, 1}));
  room.members.NoteJoin(0, 1, RankSet::FromBitmap(BitmapOf({0})));
  Piece& all = room.Open({7, 0, 1}, 1);
  EXPECT_FALSE(room.attendance.IsExempt(all, 0)) << "rank 1 works on";
  ASSERT_TRUE(room.sets.Tell(0, 5, BitmapOf({0, 2})).ok());
  ASSERT_TRUE(room.sets.Tell(0, 6, BitmapOf({1, 2})).ok());
  Piece& joined = room.Open({8, 0, 1}, 1, Combine::kAverage, 5);
  EXPECT_TRUE(room.attendance.IsExempt(joined, 0));
  room.Arrive(joined, 1, "\x01", 1);
  EXPECT_EQ(room.attendance.DivisorOf(joined), 2u);
  Piece& others = room.Open({9, 0, 1}, 1, Combine::kSum, 6);
  EXPECT_FALSE(room.attendance.IsExempt(others, 0));
  room.members.NoteJoin(0, 1);
  EXPECT_TRUE(room.attendance.IsExempt(all, 0)) << "all its ranks have joined";
  EXPECT_TRUE(room.attendance.IsExempt(others, 0));
}

TEST(AttendanceTest, AJoinExemptsFromTheRoundsBeforeItIsOver) {
  Room room;
  room.members.NoteJoin(0, 1);
  Piece& after = room.Open({7, 0, wire::RoundOf(wire::FirstRoundAfter(1) + 1, 0)}, 1);
  EXPECT_FALSE(room.attendance.IsExempt(after, 0)) << "that join is over";
  Piece& last = room.Open({8, 0, 1}, 1, Combine::kLast);
  EXPECT_FALSE(room.attendance.IsExempt(last, 0)) << "joins themselves wait for all";
}

TEST(AttendanceTest, AllHaveSaidWhenAllWhoAreServedHave) {
  wire::View view = ViewFor(3, 1);
  view.workers[2].left = true;
  Room room(view);
  EXPECT_TRUE(room.attendance.AllHaveSaid(1)) << "nobody else ever owned it";
  room.members.NoteResync(0, 4);
  EXPECT_FALSE(room.attendance.AllHaveSaid(4));
  room.members.NoteResync(1, 3);
  EXPECT_FALSE(room.attendance.AllHaveSaid(4)) << "of an earlier stay";
  room.members.NoteResync(1, 5);
  EXPECT_TRUE(room.attendance.AllHaveSaid(4));
}

TEST(AttendanceTest, ABroadcastWhoseRootHasJoinedHasNoBytes) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 4, Combine::kOverlay);
  room.Arrive(piece, 1, "", 4);
  EXPECT_FALSE(room.attendance.NobodyBrings(piece).has_value()) << "the others may";
  room.members.NoteJoin(0, 1);
  ASSERT_TRUE(room.attendance.NobodyBrings(piece).has_value());
  EXPECT_NE(room.attendance.NobodyBrings(piece)->message().find("rank 0 has joined"),
            std::string::npos);
  room.Arrive(piece, 2, "abcd", 4);
  EXPECT_FALSE(room.attendance.NobodyBrings(piece).has_value());
}

TEST(AttendanceTest, WhoIsGoneIsNoMemberOfTheRound) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 1);
  room.Arrive(piece, 2, "a", 1);
  wire::View view = ViewFor(3, 1);
  Lose(view, 2);
  room.SetView(view);
  EXPECT_FALSE(room.attendance.AnyMemberIn(*piece.round));
  EXPECT_EQ(room.attendance.PusherOf(*piece.round), "worker 2") << "it did push";
}

// Contributors of any size. Some of them are lost, have joined, have left or have pushed.
RC_GTEST_PROP(AttendanceTest, EverybodyIsHereOrMissingAndMissingOnesAreExemptOrNot, ()) {
  std::vector<uint32_t> ranks(*rc::gen::inRange<size_t>(1, 6));
  for (uint32_t& count : ranks) count = *rc::gen::inRange(1U, 4U);
  wire::View view = ViewOfContributors(ranks);
  Room room(view);
  Piece& piece = room.Open({7, 0, 1}, 1, Combine::kAverage);
  Round& round = *piece.round;
  std::vector<bool> here(ranks.size()), lost(ranks.size()), joined(ranks.size());
  for (Slot slot = 0; slot < ranks.size(); ++slot) {
    here[slot] = *rc::gen::arbitrary<bool>();
    lost[slot] = *rc::gen::arbitrary<bool>();
    joined[slot] = !here[slot] && *rc::gen::arbitrary<bool>();
    if (here[slot]) room.Arrive(piece, slot, "a", 1);
    if (joined[slot]) room.members.NoteJoin(slot, 1);
    if (lost[slot]) Lose(view, slot);
  }
  room.SetView(view);
  uint32_t missing = 0, exempt = 0, divisor = 0;
  std::vector<Slot> receipt, concerned;
  bool whole = true;
  for (Slot slot = 0; slot < ranks.size(); ++slot) {
    const bool lacks = !here[slot] && !lost[slot];
    missing += lacks ? 1 : 0;
    exempt += lacks && joined[slot] ? 1 : 0;
    if (here[slot] || (lacks && joined[slot])) divisor += ranks[slot];
    if (here[slot]) receipt.push_back(slot);
    if (!lost[slot] && !joined[slot]) concerned.push_back(slot);
    whole = whole && here[slot] == !lost[slot];
    RC_ASSERT(room.attendance.IsWaitedFor(piece, slot) == (lacks && !joined[slot]));
  }
  RC_ASSERT(room.attendance.CountMissing(round) == missing);
  round.SetMissing(missing);
  RC_ASSERT(room.attendance.ExemptCount(piece) == exempt);
  RC_ASSERT(room.attendance.DivisorOf(piece) == divisor);
  RC_ASSERT(room.attendance.ReceiptOf(round)->List() == receipt);
  RC_ASSERT(room.attendance.ConcernedBy(piece)->List() == concerned);
  RC_ASSERT(room.attendance.IsWholeSet(round) == whole);
  const bool any_joined = std::any_of(joined.begin(), joined.end(), [](bool one) { return one; });
  RC_ASSERT(room.attendance.OnlyExemptMissing(piece) == (any_joined && missing == exempt));
}

}  // namespace
}  // namespace byteps::protocol
