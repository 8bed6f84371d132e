#include "src/protocol/shard/wants.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

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

TEST(WantsTest, TheOldestRoundIsDueFirstAndEachIsAskedForAtItsTime) {
  Room room;
  for (TensorId tensor : {7u, 8u}) room.Open({tensor, 0, 1}, 1);
  room.wants.Clear();
  room.wants.Add({7, 0, 1});
  room.state.facts.now += milliseconds(5);
  room.wants.Add({8, 0, 1});
  room.wants.Tick(kStart + milliseconds(9));
  EXPECT_TRUE(room.driver.wants.empty());
  room.wants.Tick(kStart + milliseconds(10));
  ASSERT_EQ(room.driver.wants.size(), 3u);
  EXPECT_EQ(room.driver.wants[0].second, (std::vector<wire::PieceRef>{{7, 0, 1}}));
  EXPECT_EQ(room.wants.NextTick(), std::optional<Time>(kStart + milliseconds(15)));
  room.driver.wants.clear();
  room.wants.Tick(kStart + milliseconds(15));
  EXPECT_EQ(room.driver.wants.size(), 3u) << "once";
  room.driver.wants.clear();
  room.wants.Tick(kStart + milliseconds(1010));
  ASSERT_EQ(room.driver.wants.size(), 3u) << "again after a second";
  EXPECT_EQ(room.driver.wants[0].second, (std::vector<wire::PieceRef>{{7, 0, 1}}));
}

TEST(WantsTest, OnlyWhoIsWaitedForIsAsked) {
  wire::View view = ViewFor(4, 1);
  view.workers[3].left = true;
  Room room(view);
  Piece& piece = room.Open({7, 0, 1}, 1);
  room.Arrive(piece, 0, "a", 1);
  room.members.NoteJoin(1, 1);
  room.wants.Tick(kStart + milliseconds(10));
  ASSERT_EQ(room.driver.wants.size(), 1u);
  EXPECT_EQ(room.driver.wants[0].first, 2u) << "0 has pushed, 1 has joined, 3 has left";
}

TEST(WantsTest, WhatHasEndedIsNotAskedFor) {
  Room room;
  for (TensorId tensor : {7u, 8u}) room.Open({tensor, 0, 1}, 1);
  room.rounds.Drop(*room.pieces.Find({8, 0, 1}));
  room.wants.Tick(kStart + milliseconds(10));
  for (const auto& [slot, pieces] : room.driver.wants) {
    EXPECT_EQ(pieces, (std::vector<wire::PieceRef>{{7, 0, 1}}));
  }
  room.rounds.Drop(*room.pieces.Find({7, 0, 1}));
  room.Open({7, 0, 2}, 1);
  room.driver.wants.clear();
  room.wants.Tick(kStart + milliseconds(1010));
  ASSERT_EQ(room.driver.wants.size(), 3u);
  EXPECT_EQ(room.driver.wants[0].second, (std::vector<wire::PieceRef>{{7, 0, 2}}))
      << "another round of the piece has its own time";
}

TEST(WantsTest, MorePiecesThanAMessageMayNameComeInSeveral) {
  Room room(ViewFor(1, 1));
  const size_t rounds = wire::kWantCountMax + 3;
  for (uint32_t piece = 0; piece < rounds; ++piece) room.Open({7, piece, 1}, 1);
  room.wants.Tick(kStart + milliseconds(10));
  ASSERT_EQ(room.driver.wants.size(), 2u);
  EXPECT_EQ(room.driver.wants[0].second.size(), wire::kWantCountMax);
  EXPECT_EQ(room.driver.wants[1].second.size(), 3u);
  EXPECT_EQ(room.driver.wants[1].second.back(), (wire::PieceRef{7, uint32_t(rounds - 1), 1}));
}

TEST(WantsTest, AGenerationForgetsAll) {
  Room room;
  room.Open({7, 0, 1}, 1);
  room.wants.Tick(kStart + milliseconds(10));
  room.Open({8, 0, 1}, 1);
  room.wants.Clear();
  EXPECT_FALSE(room.wants.NextTick().has_value());
}

}  // namespace
}  // namespace byteps::protocol
