#include "src/runtime/seeing/timeline_log.h"

#include <gtest/gtest.h>

namespace byteps::runtime {
namespace {

using protocol::PieceEvent;
using protocol::PieceMoment;
using protocol::RoundEvent;
using protocol::RoundMoment;

constexpr PieceMoment kPieceMoments[] = {PieceMoment::kQueued, PieceMoment::kSetOut,
                                         PieceMoment::kPushed, PieceMoment::kAnswerBegins,
                                         PieceMoment::kAnswered};
constexpr RoundMoment kRoundMoments[] = {RoundMoment::kBegun, RoundMoment::kComplete,
                                         RoundMoment::kSummed, RoundMoment::kAnswered};

// A log whose clock goes on by one microsecond at each reading.
class TimelineLogTest : public testing::Test {
 protected:
  void Piece(const wire::PieceRef& ref, protocol::PieceWatch* watch) {
    for (PieceMoment moment : kPieceMoments) watch->On({moment, ref, "w", 3, 64});
  }

  Time now_{seconds(5)};
  TimelineLog log_{[this] { return now_ += microseconds(1); }, 4};
};

TEST_F(TimelineLogTest, APieceHasTheMomentsOfItsWay) {
  protocol::PieceWatch* watch = log_.NewPieceWatch();
  log_.SetOn(true);
  Piece({7, 2, 9}, watch);
  TimelineLog::Taken taken = log_.Take();
  ASSERT_EQ(taken.entries.size(), 1U);
  const TimelineEntry& entry = taken.entries[0];
  EXPECT_EQ(entry.kind, TimelineEntry::Kind::kPiece);
  EXPECT_EQ(*entry.name, "w");
  EXPECT_EQ(entry.ref, (wire::PieceRef{7, 2, 9}));
  EXPECT_EQ(entry.who, 3U);
  EXPECT_EQ(entry.bytes, 64U);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(entry.at[i], Time(seconds(5)) + microseconds(1 + i)) << i;
  }
  EXPECT_TRUE(log_.Take().entries.empty()) << "taken once";
}

TEST_F(TimelineLogTest, APieceThatIsPushedAgainHasItsLastPush) {
  protocol::PieceWatch* watch = log_.NewPieceWatch();
  log_.SetOn(true);
  for (PieceMoment moment :
       {PieceMoment::kQueued, PieceMoment::kSetOut, PieceMoment::kPushed, PieceMoment::kPushed,
        PieceMoment::kAnswerBegins, PieceMoment::kAnswered}) {
    watch->On({moment, {7, 0, 1}, "w", 0, 64});
  }
  const TimelineEntry entry = log_.Take().entries.at(0);
  EXPECT_EQ(entry.at[2], Time(seconds(5)) + microseconds(4));
}

TEST_F(TimelineLogTest, WhatBeganWhileItWasOffIsNotInIt) {
  protocol::PieceWatch* watch = log_.NewPieceWatch();
  Piece({7, 0, 1}, watch);
  watch->On({PieceMoment::kQueued, {7, 1, 1}, "w", 0, 64});
  log_.SetOn(true);
  watch->On({PieceMoment::kAnswered, {7, 1, 1}, "w", 0, 64});
  EXPECT_TRUE(log_.Take().entries.empty());
  watch->On({PieceMoment::kQueued, {7, 2, 1}, "w", 0, 64});
  log_.SetOn(false);
  watch->On({PieceMoment::kSetOut, {7, 2, 1}, "w", 0, 64});
  log_.SetOn(true);
  watch->On({PieceMoment::kAnswered, {7, 2, 1}, "w", 0, 64});
  EXPECT_TRUE(log_.Take().entries.empty()) << "nor what was open when it was switched off";
}

TEST_F(TimelineLogTest, AnAnswerOfAnotherRoundEndsNothing) {
  protocol::PieceWatch* watch = log_.NewPieceWatch();
  log_.SetOn(true);
  watch->On({PieceMoment::kQueued, {7, 0, 2}, "w", 0, 64});
  watch->On({PieceMoment::kAnswered, {7, 0, 1}, "w", 0, 64});
  EXPECT_TRUE(log_.Take().entries.empty());
}

TEST_F(TimelineLogTest, ARoundSaysWhoCameLast) {
  protocol::RoundWatch* watch = log_.NewRoundWatch();
  log_.SetOn(true);
  watch->On({RoundMoment::kBegun, {7, 0, 1}, kNoSlot, 16});
  for (RoundMoment moment : {kRoundMoments[1], kRoundMoments[2], kRoundMoments[3]}) {
    watch->On({moment, {7, 0, 1}, 2, 16});
  }
  const TimelineEntry entry = log_.Take().entries.at(0);
  EXPECT_EQ(entry.kind, TimelineEntry::Kind::kRound);
  EXPECT_EQ(entry.name, nullptr);
  EXPECT_EQ(entry.who, 2U);
  EXPECT_LT(entry.at[0], entry.at[1]);
}

TEST_F(TimelineLogTest, ARoundThatEndsInAnErrorIsNotInIt) {
  protocol::RoundWatch* watch = log_.NewRoundWatch();
  log_.SetOn(true);
  watch->On({RoundMoment::kBegun, {7, 0, 1}, kNoSlot, 16});
  watch->On({RoundMoment::kAnswered, {7, 0, 1}, 0, 16});
  EXPECT_TRUE(log_.Take().entries.empty());
}

TEST_F(TimelineLogTest, WhatFindsNoRoomIsCounted) {
  protocol::PieceWatch* watch = log_.NewPieceWatch();
  log_.SetOn(true);
  for (uint32_t number = 0; number < 6; ++number) Piece({7, number, 1}, watch);
  TimelineLog::Taken taken = log_.Take(3);
  EXPECT_EQ(taken.entries.size(), 3U);
  EXPECT_EQ(taken.entries.back().ref.piece, 2U) << "the oldest first";
  EXPECT_EQ(taken.lost, 2U);
  taken = log_.Take(3);
  EXPECT_EQ(taken.entries.size(), 1U);
  EXPECT_EQ(taken.lost, 0U);
}

}  // namespace
}  // namespace byteps::runtime
