#include "src/protocol/control/members/roster.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

TEST(RosterTest, FindsAMemberByItsConnectionAndByItsProcess) {
  Roster roster;
  roster.Add(50, JoinOf(Role::kWorker, 7, 3));
  EXPECT_EQ(roster.At(50)->incarnation(), 7u);
  EXPECT_EQ(roster.Find(7)->connection, 50u);
  EXPECT_EQ(roster.Find(7)->index, 3u) << "the number that it asked for";
  EXPECT_EQ(roster.At(7), nullptr);
  EXPECT_EQ(roster.Find(50), nullptr);
  roster.Remove(50);
  EXPECT_EQ(roster.Find(7), nullptr);
  roster.Remove(50);
  roster.Add(51, JoinOf(Role::kWorker, 7));
  EXPECT_EQ(roster.Find(7)->index, kNoSlot);
}

TEST(RosterTest, WhatAProcessSaysOverAnEarlierConnectionIsOld) {
  Roster roster;
  roster.Add(50, JoinOf(Role::kWorker, 7));
  EXPECT_FALSE(roster.IsOld(50, 7));
  EXPECT_TRUE(roster.IsOld(49, 7));
  EXPECT_FALSE(roster.IsOld(49, 8)) << "another process";
  roster.Remove(50);
  EXPECT_TRUE(roster.IsOld(49, 7)) << "also when the later one is closed";
  EXPECT_FALSE(roster.IsOld(51, 7));
}

TEST(RosterTest, WhoHasLeftIsConnectedAndDoesNotCount) {
  Roster roster;
  Add(roster, Role::kWorker, 1, Presence::kIn);
  Add(roster, Role::kWorker, 2, Presence::kLeft);
  EXPECT_FALSE(roster.AnyWaits(Role::kWorker));
  Add(roster, Role::kWorker, 3, Presence::kWaiting);
  Add(roster, Role::kServer, 101, Presence::kWaiting);
  EXPECT_EQ(roster.Count(Role::kWorker, false), 2u);
  EXPECT_EQ(roster.Count(Role::kWorker, true), 1u);
  EXPECT_EQ(roster.Count(Role::kServer, true), 0u);
  EXPECT_TRUE(roster.AnyWaits(Role::kWorker));
  EXPECT_EQ(roster.all().size(), 4u);
}

TEST(RosterTest, IndicesAreGivenBackByWhoWaitsAndDidNotAskForThem) {
  Roster roster;
  Add(roster, Role::kWorker, 1, Presence::kIn).index = 0;
  Add(roster, Role::kWorker, 2, Presence::kWaiting, 4);
  Add(roster, Role::kWorker, 3, Presence::kWaiting);
  Add(roster, Role::kServer, 101, Presence::kWaiting);
  roster.GiveIndices();
  EXPECT_EQ(roster.Find(3)->index, 1u);
  EXPECT_EQ(roster.Find(101)->index, 0u) << "servers have places of their own";
  roster.TakeBackIndices(false);
  EXPECT_EQ(roster.Find(1)->index, 0u);
  EXPECT_EQ(roster.Find(2)->index, 4u);
  EXPECT_EQ(roster.Find(3)->index, kNoSlot);
  EXPECT_EQ(roster.Find(101)->index, 0u) << "the place of a dead one";
  roster.TakeBackIndices(true);
  EXPECT_EQ(roster.Find(101)->index, kNoSlot);
}

// Holds for any numbers that the processes asked for.
RC_GTEST_PROP(RosterTest, EverybodyGetsANumberOfItsOwnAndNoneIsSkipped, ()) {
  Roster roster;
  std::set<uint32_t> asked;
  const auto workers = *rc::gen::inRange<uint64_t>(1, 10);
  for (uint64_t who = 1; who <= workers; ++who) {
    int32_t rank = *rc::gen::inRange(-6, 10);
    if (rank >= 0 && !asked.insert(static_cast<uint32_t>(rank)).second) rank = -1;
    Add(roster, Role::kWorker, who, Presence::kWaiting, rank < 0 ? -1 : rank);
  }
  roster.GiveIndices();
  std::set<uint32_t> given;
  for (const auto& [id, member] : roster.all()) {
    RC_ASSERT(given.insert(member.index).second);
    if (member.join.rank >= 0) RC_ASSERT(member.index == static_cast<uint32_t>(member.join.rank));
  }
  for (const auto& [id, member] : roster.all()) {
    if (member.join.rank >= 0) continue;
    for (uint32_t lower = 0; lower < member.index; ++lower) RC_ASSERT(given.contains(lower));
  }
}

TEST(RosterTest, OneWorkerSaysWhatAllWorkersDecide) {
  Roster roster;
  EXPECT_EQ(JoinOfAWorker(roster), nullptr);
  Add(roster, Role::kServer, 101, Presence::kWaiting).join.piece_bytes_max = 1;
  Add(roster, Role::kWorker, 1, Presence::kLeft).join.piece_bytes_max = 2;
  EXPECT_EQ(JoinOfAWorker(roster), nullptr);
  Add(roster, Role::kWorker, 2, Presence::kWaiting).join.piece_bytes_max = 3;
  EXPECT_EQ(JoinOfAWorker(roster)->piece_bytes_max, 3u);
}

TEST(RosterTest, NamesAMemberForPeople) {
  Roster roster;
  Member& member = Add(roster, Role::kWorker, 7, Presence::kWaiting);
  EXPECT_EQ(NameOf(member), "worker (process 7)");
  member.index = 2;
  member.join.node = "node-3";
  EXPECT_EQ(NameOf(member), "worker 2 (process 7 on node-3)");
}

}  // namespace
}  // namespace byteps::protocol
