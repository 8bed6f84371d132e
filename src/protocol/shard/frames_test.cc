// ShardView, Intake and PostponedFrames: which frames count, which wait, and where they go.
#include <gtest/gtest.h>

#include "src/protocol/shard/postponed_frames.h"
#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

TEST(ShardViewTest, WhatWasSaidBeforeThePieceCameDoesNotCount) {
  wire::View two = ViewFor(1, 1);
  two.servers.push_back(two.servers[0]);
  two.servers[1].index = two.servers[1].first_shard = 1;
  ShardView view(ShardRules::Default());
  EXPECT_TRUE(view.Set(two, 0));
  EXPECT_TRUE(view.Counts({7, 0, 1}, 0, 1).has_value());
  EXPECT_FALSE(view.Counts({7, 0, 1}, 1, 1).has_value()) << "it is the other's";
  two.epoch = 5;
  two.servers[1].alive = false;
  two.servers[1].since = 5;
  EXPECT_FALSE(view.Set(two, 0)) << "the same generation";
  EXPECT_EQ(view.Counts({7, 0, 1}, 1, 5), std::optional<uint64_t>(5));
  EXPECT_FALSE(view.Counts({7, 0, 1}, 1, 4).has_value());
  EXPECT_TRUE(view.Stays(7, 0, 0, 4));
  EXPECT_FALSE(view.Stays(7, 0, 1, 4)) << "it has just come";
  EXPECT_TRUE(view.AlwaysMine(1));
  EXPECT_FALSE(view.AlwaysMine(5));
  EXPECT_FALSE(view.IsShard(2));
}

TEST(IntakeTest, WhatNobodyLooksAtHasAPlaceToo) {
  Intake intake;
  intake.SetSlots(2, true);
  Incoming& incoming = intake.Next(1);
  incoming.payload_bytes = 100;
  EXPECT_EQ(incoming.fate, Fate::kDropped);
  EXPECT_EQ(intake.Begin(1).size(), 100u);
  EXPECT_TRUE(intake.IsReceiving(1));
  EXPECT_FALSE(intake.IsReceiving(0));
  EXPECT_TRUE(intake.End(1).place.empty());
  EXPECT_FALSE(intake.IsReceiving(1));
}

TEST(IntakeTest, GivesTheMemoryBackWhenItIsForgotten) {
  BufferPool pool;
  Intake intake;
  intake.SetSlots(1, true);
  Incoming& incoming = intake.Next(0);
  incoming.fate = Fate::kVerdict;
  incoming.keep = pool.Take(8);
  incoming.place = ByteSpan(incoming.keep.data(), 8);
  EXPECT_EQ(intake.Begin(0).data(), incoming.keep.data());
  EXPECT_EQ(intake.End(0).fate, Fate::kVerdict);
  intake.Forget(0);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

class PostponedFramesTest : public testing::Test {
 protected:
  void SetEpoch(uint64_t epoch) {
    wire::View view = ViewFor(2, 1);
    view.epoch = epoch;
    room.SetView(view);
    frames.OnView();
  }
  Room room{ViewFor(2, 1), ShardOptions{.postponed_bytes_max = 2000}};
  PostponedFrames frames{room.options, room.view, room.members};
};

TEST_F(PostponedFramesTest, WhatComesBehindAPostponedFrameWaitsToo) {
  SetEpoch(1);
  EXPECT_FALSE(frames.MustWait(0, 1));
  EXPECT_TRUE(frames.MustWait(0, 2));
  frames.Add(0, wire::FrameKind::kAck, 2, {.number = 5});
  EXPECT_TRUE(frames.MustWait(0, 1));
  EXPECT_FALSE(frames.MustWait(1, 1)) << "each connection has its own order";
  EXPECT_FALSE(frames.TakeNext(0).has_value());
  SetEpoch(2);
  EXPECT_EQ(frames.TakeNext(0)->number, 5u);
  EXPECT_FALSE(frames.TakeNext(0).has_value());
  EXPECT_FALSE(frames.MustWait(0, 2));
}

TEST_F(PostponedFramesTest, AFrameWaitsForItsPayload) {
  SetEpoch(1);
  Incoming incoming;
  incoming.header = PushOf({7, 0, 1}, 4);
  incoming.header.epoch = 2;
  incoming.payload_bytes = 4;
  ASSERT_TRUE(frames.AddData(0, wire::FrameKind::kPush, incoming, room.pool).ok());
  EXPECT_EQ(incoming.fate, Fate::kPostponed);
  EXPECT_EQ(incoming.place.size(), 4u);
  SetEpoch(2);
  EXPECT_FALSE(frames.TakeNext(0).has_value());
  frames.CompleteLast(0);
  EXPECT_EQ(frames.TakeNext(0)->header.ref.tensor, 7u);
}

TEST_F(PostponedFramesTest, TheLimitIsEachMembersOwnAndEndsWithItsConnection) {
  SetEpoch(1);
  while (frames.Check(0).ok()) frames.Add(0, wire::FrameKind::kResync, 9, {});
  EXPECT_EQ(frames.Check(0).code(), StatusCode::kExhausted);
  Incoming incoming;
  EXPECT_FALSE(frames.AddData(0, wire::FrameKind::kPush, incoming, room.pool).ok());
  EXPECT_TRUE(frames.Check(1).ok());
  frames.ForgetConnection(0);
  EXPECT_TRUE(frames.Check(0).ok());
}

}  // namespace
}  // namespace byteps::protocol
