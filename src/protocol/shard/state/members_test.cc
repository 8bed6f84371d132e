#include "src/protocol/shard/state/members.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

TEST(MembersTest, AContributorIsItsProcesses) {
  Members members;
  members.SetView(ViewOfContributors({2, 1}), true);
  EXPECT_EQ(members.size(), 2u);
  EXPECT_EQ(members.present_count(), 2u);
  EXPECT_EQ(members.RanksOf(0), (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(members.SlotOf(2), 1u);
  EXPECT_EQ(members.SlotOf(3), kNoSlot);
  EXPECT_EQ(members.NameOf(0), "workers 0, 1");
  EXPECT_EQ(members.NameOf(1), "worker 2");
  EXPECT_EQ(members.NameOf(9), "the worker of slot 9");
  EXPECT_EQ(members.everybody()->List(), (std::vector<Slot>{0, 1}));
}

TEST(MembersTest, AContributorHasLeftWhenAllItsProcessesHave) {
  wire::View view = ViewOfContributors({2, 1});
  Members members;
  members.SetView(view, true);
  EXPECT_FALSE(members.AnyHasLeft());
  view.workers[1].left = true;
  members.SetView(view, false);
  EXPECT_TRUE(members.IsServed(0)) << "rank 0 is still here";
  EXPECT_EQ(members.left_ranks().List(), (std::vector<uint32_t>{1}));
  view.workers[0].left = true;
  members.SetView(view, false);
  EXPECT_FALSE(members.IsServed(0));
  EXPECT_TRUE(members.IsPresent(0));
  EXPECT_EQ(members.served_count(), 1u);
}

TEST(MembersTest, WhoIsGoneKeepsItsRanks) {
  wire::View view = ViewOfContributors({2, 1});
  Members members;
  members.SetView(view, true);
  Lose(view, 0);
  EXPECT_EQ(members.SetView(view, false), (std::vector<Slot>{0}));
  EXPECT_FALSE(members.IsPresent(0));
  EXPECT_EQ(members.SlotOf(1), 0u);
  EXPECT_TRUE(members.SetView(view, false).empty()) << "it was gone before";
}

TEST(MembersTest, WhatMembersSayLastsUntilTheirConnectionOrTheGenerationEnds) {
  Members members;
  members.SetView(ViewFor(2, 1), true);
  members.NoteResync(1, 5);
  members.NoteEpoch(1, 4);
  members.NoteJoin(1, 2);
  EXPECT_EQ(members.epoch(1), 5u);
  EXPECT_EQ(members.resynced(1), 5u);
  members.ForgetConnection(1);
  EXPECT_EQ(members.epoch(1), 0u);
  EXPECT_EQ(members.resynced(1), 0u);
  EXPECT_EQ(members.joined(1), 2u) << "a join is over when all have joined";
  EXPECT_EQ(members.last_join(), 2u);
  members.SetView(ViewFor(2, 1), true);
  EXPECT_EQ(members.joined(1), 0u);
  EXPECT_EQ(members.last_join(), 0u);
}

TEST(MembersTest, NobodyJoinsWithinAGeneration) {
  Members members;
  members.SetView(ViewFor(2, 1), true);
  members.SetView(ViewFor(3, 1), false);
  EXPECT_EQ(members.size(), 2u);
  EXPECT_EQ(members.SlotOf(2), kNoSlot);
}

}  // namespace
}  // namespace byteps::protocol
