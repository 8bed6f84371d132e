#include "src/protocol/shard/rounds.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

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

// Records the moments of rounds.
class RecordingWatch final : public RoundWatch {
 public:
  void On(const RoundEvent& event) override { events.push_back(event); }
  std::vector<RoundMoment> Moments() const {
    std::vector<RoundMoment> moments;
    for (const RoundEvent& event : events) moments.push_back(event.moment);
    return moments;
  }
  std::vector<RoundEvent> events;
};

TEST(RoundsTest, AWatchHearsOfARoundAndOfWhoCameLast) {
  using enum RoundMoment;
  RecordingWatch watch;
  Room room(ViewFor(3, 1), ShardOptions{.watch = &watch});
  Piece& piece = room.Open({7, 0, 1}, 1);
  for (Slot slot : {0u, 2u}) {
    room.Arrive(piece, slot, "\x01", 1);
    room.rounds.DecideIfPossible(piece);
  }
  EXPECT_EQ(watch.Moments(), (std::vector{kBegun}));
  room.Arrive(piece, 1, "\x04", 1);
  room.rounds.DecideIfPossible(piece);
  EXPECT_EQ(watch.Moments(), (std::vector{kBegun, kComplete, kSummed, kAnswered}));
  EXPECT_EQ(watch.events[1].last, 1u);
  EXPECT_EQ(watch.events[1].ref, (wire::PieceRef{7, 0, 1}));
  EXPECT_EQ(watch.events[1].bytes, 1u);
}

TEST(RoundsTest, ARoundThatEndsInAnErrorIsNeverSummed) {
  using enum RoundMoment;
  RecordingWatch watch;
  Room room(ViewFor(3, 1), ShardOptions{.watch = &watch});
  Piece& piece = room.Open({7, 0, 1}, 1);
  room.Arrive(piece, 0, "\x01", 1);
  piece.round->Fail({StatusCode::kDeadlineExceeded, "late"});
  room.rounds.DecideIfPossible(piece);
  EXPECT_EQ(watch.Moments(), (std::vector{kBegun, kAnswered}));
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
  Status refused = room.rounds.Open(third, *room.sets.For(0, 0), PushOf({3, 0, 1}, 1));
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

TEST(RoundsTest, WhatCannotBeASumEndsInTheErrorThatWasAskedFor) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 1);
  room.Arrive(piece, 0, "\x01", 1);
  piece.round->ArriveAborted(1, PushOf({7, 0, 1}, 1), true);
  room.Arrive(piece, 2, "\x01", 1);
  room.rounds.DecideIfPossible(piece);
  EXPECT_EQ(room.rounds.open_count(), 1u) << "nobody has said why";
  piece.round->Fail({StatusCode::kDeadlineExceeded, "late"});
  room.rounds.DecideIfPossible(piece);
  EXPECT_TRUE(piece.verdict.IsError());
  EXPECT_EQ(room.Answered(), (std::vector<Slot>{0, 1, 2}));
}

TEST(RoundsTest, ARoundThatNobodyIsInIsDropped) {
  Room room;
  ASSERT_TRUE(room.sets.Tell(2, 5, BitmapOf({2})).ok());
  Piece& piece = room.Open({7, 0, 1}, 1, Combine::kSum, 5);
  wire::View view = ViewFor(3, 1);
  Lose(view, 2);
  room.SetView(view);
  piece.round->SetMissing(room.attendance.CountMissing(*piece.round));
  room.rounds.DecideIfPossible(piece);
  EXPECT_EQ(piece.round, nullptr);
  EXPECT_EQ(piece.verdict.round(), 0u) << "nothing was decided";
  EXPECT_TRUE(room.driver.answers.empty());
}

TEST(RoundsTest, WhenItEndsItsProcessSetMayBeForgotten) {
  Room room;
  ASSERT_TRUE(room.sets.Tell(0, 5, BitmapOf({0, 1})).ok());
  Piece& piece = room.Open({7, 0, 1}, 1, Combine::kSum, 5);
  room.sets.ForgetConnection(0);
  EXPECT_EQ(room.sets.size(), 1u);
  room.rounds.Drop(piece);
  EXPECT_EQ(room.sets.size(), 0u);
}

TEST(RoundsTest, WhoDidNotTakePartIsNotInTheReceipt) {
  Room room;
  Piece& piece = room.Open({7, 0, 1}, 1);
  room.members.NoteJoin(1, 1);
  for (Slot slot : {0u, 2u}) room.Arrive(piece, slot, "\x01", 1);
  room.rounds.DecideIfPossible(piece);
  EXPECT_EQ(piece.verdict.receipt()->List(), (std::vector<Slot>{0, 2}));
}

// Each of the three may be the event that an error has waited for.
TEST(RoundsTest, WhatMakesTheVerdictStableLetsTheErrorThrough) {
  for (int how : {0, 1, 2}) {
    Room room(ViewFor(2, 1));
    Piece& piece = room.Open({7, 0, 1}, 1);
    for (Slot slot : {0u, 1u}) room.Arrive(piece, slot, "\x01", 1);
    room.rounds.DecideIfPossible(piece);
    room.rounds.NoteHolder(piece, 0);
    room.Open({7, 0, 2}, 1);
    piece.round->Fail({StatusCode::kDeadlineExceeded, "late"});
    room.rounds.DecideIfPossible(piece);
    ASSERT_EQ(room.rounds.open_count(), 1u);
    if (how == 0) room.rounds.NoteStable(piece, 1);
    if (how == 1) {
      wire::View view = ViewFor(2, 1);
      Lose(view, 1);
      room.SetView(view);
      room.rounds.Recount(piece);
    }
    if (how == 2) {
      piece.verdict.AddHolder(1, room.members);
      room.rounds.Settle(piece);
    }
    EXPECT_TRUE(piece.verdict.IsError()) << how;
    EXPECT_EQ(room.rounds.open_count(), 0u);
  }
}

// Rank 0 is a contributor, and ranks 1 and 2 are another one, which is no block.
TEST(RoundsTest, ASumThatDependsOnPlacementIsRefusedWhereTheJobAllowsNone) {
  const auto is_refused = [](wire::View begun, DataType type, Combine how, uint32_t set = 0) {
    Room room(begun);
    if (set != 0) {
      for (Slot slot : {0u, 1u}) EXPECT_TRUE(room.sets.Tell(slot, set, BitmapOf({0, 2})).ok());
    }
    wire::DataHeader push = PushOf({7, 0, 1}, 4, how);
    push.dtype = type;
    push.process_set = set;
    Piece& piece = room.Open(push);
    for (Slot slot : {0u, 1u}) room.Arrive(piece, slot, std::string(4, '\0'), 4);
    room.rounds.DecideIfPossible(piece);
    EXPECT_EQ(room.rounds.open_count(), 0u);
    if (!piece.verdict.IsError()) return false;
    const Status why = *piece.verdict.errors().Of(1);
    EXPECT_NE(why.message().find("ranks 1, 2 are no blocks; put larger"), std::string::npos);
    return true;
  };
  wire::View begun = ViewOfContributors({1, 2});
  EXPECT_FALSE(is_refused(begun, DataType::kFloat32, Combine::kSum));
  begun.same_bits = true;
  EXPECT_TRUE(is_refused(begun, DataType::kFloat32, Combine::kSum));
  EXPECT_TRUE(is_refused(begun, DataType::kBfloat16, Combine::kAverage));
  EXPECT_FALSE(is_refused(begun, DataType::kInt32, Combine::kSum));
  EXPECT_FALSE(is_refused(begun, DataType::kFloat32, Combine::kMax));
  EXPECT_FALSE(is_refused(begun, DataType::kFloat32, Combine::kSum, 5)) << "one of each machine";
  wire::View blocks = ViewOfContributors({2, 1});
  blocks.same_bits = true;
  EXPECT_FALSE(is_refused(blocks, DataType::kFloat16, Combine::kSum));
}

}  // namespace
}  // namespace byteps::protocol
