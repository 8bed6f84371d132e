#include "src/protocol/shard/postponed_frames.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

class PostponedFramesTest : public testing::Test {
 protected:
  void SetEpoch(uint64_t epoch) {
    wire::View view = ViewFor(2, 1);
    view.epoch = epoch;
    room.SetView(view);
    frames.OnView();
  }
  Room room{ViewFor(2, 1), ShardOptions{.postponed_bytes_max = 2000}};
  PostponedFrames frames{room.state.options, room.view, room.members};
};

TEST_F(PostponedFramesTest, WhatComesBehindAPostponedFrameWaitsToo) {
  SetEpoch(1);
  EXPECT_FALSE(frames.MustWait(0, 1));
  EXPECT_TRUE(frames.MustWait(0, 2));
  frames.Add(0, wire::Ack{5, 2});
  EXPECT_TRUE(frames.MustWait(0, 1));
  EXPECT_FALSE(frames.MustWait(1, 1)) << "each connection has its own order";
  EXPECT_FALSE(frames.TakeNext(0).has_value());
  SetEpoch(2);
  EXPECT_EQ(std::get<wire::Ack>(std::get<wire::Frame>(frames.TakeNext(0)->frame)).count, 5u);
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
  EXPECT_EQ(std::get<wire::DataFrame>(frames.TakeNext(0)->frame).header.ref.tensor, 7u);
}

TEST_F(PostponedFramesTest, TheLimitIsEachMembersOwnAndEndsWithItsConnection) {
  SetEpoch(1);
  while (frames.Check(0).ok()) frames.Add(0, wire::Resync{9});
  EXPECT_EQ(frames.Check(0).code(), StatusCode::kExhausted);
  Incoming incoming;
  EXPECT_FALSE(frames.AddData(0, wire::FrameKind::kPush, incoming, room.pool).ok());
  EXPECT_TRUE(frames.Check(1).ok());
  frames.ForgetConnection(0);
  EXPECT_TRUE(frames.Check(0).ok());
}

// The frames come in any order of views. The frames of a connection come out in their order, none
// before its view, and a frame that is taken out does not count any more.
RC_GTEST_FIXTURE_PROP(PostponedFramesTest, NothingOvertakesAndNothingIsCountedTwice, ()) {
  PostponedFrames mine{ShardOptions{.postponed_bytes_max = 0}, room.view, room.members};
  uint64_t added[2] = {0, 0};
  uint64_t taken[2] = {0, 0};
  const auto apply = [&](uint64_t epoch) {
    SetEpoch(epoch);
    mine.OnView();
    for (Slot slot : {0u, 1u}) {
      while (auto frame = mine.TakeNext(slot)) {
        const auto& joined = std::get<wire::Joined>(std::get<wire::Frame>(frame->frame));
        RC_ASSERT(joined.number == ++taken[slot]);
        RC_ASSERT(joined.epoch <= epoch);
      }
      RC_ASSERT(mine.Check(slot).ok() == (taken[slot] == added[slot]));
    }
  };
  apply(1);
  const uint64_t epochs = 6;
  for (uint64_t epoch = 1; epoch < epochs; ++epoch) {
    const int frames_now = *rc::gen::inRange(0, 5);
    for (int i = 0; i < frames_now; ++i) {
      const Slot slot = *rc::gen::inRange<Slot>(0, 2);
      const uint64_t named = *rc::gen::inRange<uint64_t>(epoch, epochs);
      const bool behind = added[slot] > taken[slot];
      RC_ASSERT(mine.MustWait(slot, named) == (behind || named > epoch));
      if (!mine.MustWait(slot, named)) continue;
      const auto bytes = *rc::gen::inRange<size_t>(0, 40);
      mine.Add(slot, wire::Joined{++added[slot], named, std::vector<std::byte>(bytes)});
    }
    apply(epoch + 1);
  }
  for (Slot slot : {0u, 1u}) RC_ASSERT(taken[slot] == added[slot]);
}

}  // namespace
}  // namespace byteps::protocol
