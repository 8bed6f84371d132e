#include "src/protocol/shard/member_reports.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/said_for_test.h"

namespace byteps::protocol {
namespace {

using MemberReportsTest = SaidTest;

TEST_F(MemberReportsTest, WhatOneKnowsToBeStableIsSoForAll) {
  TakeHave(room.state, 0, 2, {{{7, 0, 3}, 0}});
  EXPECT_EQ(piece().verdict.round(), 3u);
  EXPECT_TRUE(piece().verdict.stable());
  EXPECT_TRUE(Push(1, Header(4), "\x01").ok());
  TakeHave(room.state, 0, 2, {{{7, 0, 4}, 0}});
  EXPECT_EQ(piece().verdict.round(), 3u) << "it waits for who brings that verdict";
}

TEST_F(MemberReportsTest, AnAcknowledgementIsForTheRoundThatWasAnswered) {
  for (Slot slot : {0u, 1u, 2u}) EXPECT_TRUE(Push(slot, Header(1), "\x01").ok());
  TakeAck(room.state, 0, 99);
  EXPECT_TRUE(piece().verdict.IsHeldBy(0));
  TakeAck(room.state, 1, 0);
  EXPECT_FALSE(piece().verdict.IsHeldBy(1));
}

TEST_F(MemberReportsTest, WhoJoinsIsNotWaitedForWhenItHasSaidAll) {
  for (Slot slot : {0u, 1u}) EXPECT_TRUE(Push(slot, Header(1), "\x01").ok());
  TakeJoined(room.state, 2, 1);
  EXPECT_TRUE(room.driver.answers.empty()) << "it may hold the former owner's verdict";
  TakeResync(room.state, 2, 2);
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 1}));
}

TEST_F(MemberReportsTest, AnAcknowledgementOfWhatIsNotKeptAnyMoreMeansNothing) {
  for (Slot slot : {0u, 1u, 2u}) EXPECT_TRUE(Push(slot, Header(1), "\x01").ok());
  Piece& kept = *room.pieces.Find({7, 0, 1});
  kept.since = 3;  // it went away and came back, with the same round decided
  TakeAck(room.state, 0, 1);
  EXPECT_FALSE(kept.verdict.IsHeldBy(0));
  kept.since = 2;
  for (Slot slot : {0u, 1u, 2u}) EXPECT_TRUE(Push(slot, Header(2), "\x01").ok());
  TakeAck(room.state, 1, 1);
  EXPECT_FALSE(kept.verdict.IsHeldBy(1)) << "it was about the round before";
  TakeAck(room.state, 1, 2);
  EXPECT_TRUE(kept.verdict.IsHeldBy(1));
}

TEST_F(MemberReportsTest, WhatIsHeldOfOthersPiecesIsNoNews) {
  TakeHave(room.state, 0, 2, {{{7, 0, 3}, 9}});
  TakeHave(room.state, 0, 1, {{{7, 0, 3}, 0}});
  EXPECT_EQ(room.pieces.Find({7, 0, 3}), nullptr) << "no such shard, or of an earlier stay";
}

TEST_F(MemberReportsTest, AnOlderHaveDoesNotTakeBackALaterRound) {
  TakeHave(room.state, 0, 2, {{{7, 0, 3}, 0}});
  TakeHave(room.state, 1, 2, {{{7, 0, 2}, 0}});
  EXPECT_EQ(piece().verdict.round(), 3u);
}

// If no other shard has owned the piece, a `have` counts only for its sender.
TEST(MemberReportsOfOneShardTest, WhoHasAVerdictSaysSoOfItself) {
  Room room;
  Piece& piece = room.Decide(7);
  TakeHave(room.state, 1, 1, {{{7, 0, 1}, 0}, {{7, 1, 1}, 0}});
  EXPECT_TRUE(piece.verdict.IsHeldBy(1));
  EXPECT_FALSE(piece.verdict.stable());
  EXPECT_EQ(room.pieces.Find({7, 1, 1}), nullptr) << "news of what was never here";
}

TEST_F(MemberReportsTest, WhoJoinsIsAnsweredFromNoVerdictAnyMore) {
  for (Slot slot : {0u, 1u, 2u}) EXPECT_TRUE(Push(slot, Header(1), "\x01").ok());
  for (Slot slot : {0u, 1u}) room.rounds.NoteHolder(*room.pieces.Find({7, 0, 1}), slot);
  EXPECT_FALSE(piece().verdict.stable());
  TakeJoined(room.state, 2, 1);
  EXPECT_TRUE(piece().verdict.stable()) << "it has no operation open, so it has this verdict";
}

// The second error was decided before the last holder of the first had said so. Worker 1 never
// comes to hold the second error, because it leaves.
TEST_F(MemberReportsTest, AnErrorIsStableWhenAllHaveItWhateverFollowedIt) {
  for (Slot slot : {0u, 1u, 2u}) TakeResync(room.state, slot, 2);
  EXPECT_TRUE(Abort(0, Header(1), "late").ok());
  for (Slot slot : {1u, 2u}) EXPECT_TRUE(Push(slot, Header(1), "\x01").ok());
  EXPECT_TRUE(Abort(0, Header(2), "late again").ok());
  ASSERT_EQ(room.Answered(), (std::vector<Slot>{0, 1, 2, 0}));
  TakeAck(room.state, 0, 2);
  TakeAck(room.state, 1, 1);
  const auto stable = [&] {
    room.driver.stable.clear();
    while (room.answers.due().has_value()) room.answers.Tick(*room.answers.due());
    return room.driver.stable;
  };
  using Told = std::vector<std::pair<Slot, uint64_t>>;
  EXPECT_EQ(stable(), Told{}) << "worker 2 has not said that it holds the first";
  TakeAck(room.state, 2, 1);
  EXPECT_EQ(stable(), (Told{{0, 1}, {1, 1}, {2, 1}}));
  EXPECT_FALSE(piece().verdict.stable());
  EXPECT_TRUE(Push(2, Header(2), "\x01").ok());
  TakeAck(room.state, 2, 2);
  EXPECT_EQ(stable(), Told{}) << "worker 1 has not the second";
}

// The member's acknowledgement was lost with its connection. Over the next connection the member
// tells what it holds.
TEST_F(MemberReportsTest, WhoTellsAnEarlierErrorHoldsIt) {
  for (Slot slot : {0u, 1u, 2u}) TakeResync(room.state, slot, 2);
  for (Slot slot : {0u, 1u, 2u}) EXPECT_TRUE(Abort(slot, Header(1), "late").ok());
  for (Slot slot : {0u, 1u}) {
    EXPECT_TRUE(Abort(slot, Header(2), "late").ok());
  }
  EXPECT_FALSE(piece().verdict.IsWithAll(1, room.members));
  std::vector<std::byte> row = piece().verdict.errors().Encode(1);
  wire::DataHeader header = Header(1, static_cast<uint32_t>(row.size()));
  header.status = StatusCode::kDeadlineExceeded;
  EXPECT_TRUE(Tell(2, header, {reinterpret_cast<const char*>(row.data()), row.size()}).ok());
  EXPECT_EQ(piece().verdict.round(), 2u);
  for (Slot slot : {0u, 1u}) TakeAck(room.state, slot, 2);
  EXPECT_TRUE(piece().verdict.IsWithAll(1, room.members));
  EXPECT_FALSE(piece().verdict.IsWithAll(2, room.members));
}

TEST_F(MemberReportsTest, TheLastResyncLetsAnErrorThrough) {
  EXPECT_TRUE(Abort(0, Header(1), "late").ok());
  for (Slot slot : {0u, 1u}) TakeResync(room.state, slot, 2);
  TakeResync(room.state, 2, 1);
  EXPECT_TRUE(room.driver.answers.empty()) << "of the view before";
  TakeResync(room.state, 2, 2);
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0}));
}

}  // namespace
}  // namespace byteps::protocol
