#include "src/protocol/control/members/waiting_contributors.h"

#include <gtest/gtest.h>

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

class WaitingContributorsTest : public testing::Test {
 protected:
  Member& Come(uint64_t who, const std::string& key, uint32_t size = 1, uint32_t local_rank = 0) {
    Member& member = Add(roster, Role::kWorker, who, Presence::kWaiting);
    member.join.contributor = key;
    member.join.contributor_size = size;
    member.join.local_rank = local_rank;
    return member;
  }
  std::vector<std::vector<uint64_t>> All() const {
    std::vector<std::vector<uint64_t>> all;
    for (const WaitingContributor& one : WaitingContributors(roster)) {
      std::vector<uint64_t>& processes = all.emplace_back();
      for (const Member* member : one.processes) processes.push_back(member->incarnation());
    }
    return all;
  }
  using Processes = std::vector<std::vector<uint64_t>>;
  Roster roster;
};

TEST_F(WaitingContributorsTest, ProcessesOfOneKeyAreOneByTheirLocalRank) {
  Come(1, "b", 2, 1);
  Come(2, "");
  Come(3, "a", 3, 0);
  Come(4, "b", 2, 0);
  Come(5, "");
  EXPECT_EQ(All(), (Processes{{4, 1}, {2}, {3}, {5}})) << "in the order of their first ones";
}

TEST_F(WaitingContributorsTest, OnlyWorkersThatWaitCount) {
  Come(1, "a", 2, 0);
  Come(2, "a", 2, 1).presence = Presence::kIn;
  Come(3, "").presence = Presence::kLeft;
  Add(roster, Role::kServer, 101, Presence::kWaiting);
  EXPECT_EQ(All(), (Processes{{1}}));
  EXPECT_FALSE(AnyWhole(WaitingContributors(roster)));
}

TEST_F(WaitingContributorsTest, ItIsWholeWhenAllItsProcessesAreHere) {
  EXPECT_FALSE(AnyWhole(WaitingContributors(roster)));
  Come(1, "a", 2, 0);
  Come(2, "b", 3, 0);
  Come(3, "b", 3, 1);
  EXPECT_FALSE(AnyWhole(WaitingContributors(roster)));
  EXPECT_EQ(CountWhole(WaitingContributors(roster)), 0u);
  Come(4, "b", 3, 2);
  EXPECT_TRUE(AnyWhole(WaitingContributors(roster)));
  EXPECT_EQ(CountWhole(WaitingContributors(roster)), 3u);
  Come(5, "");
  EXPECT_EQ(CountWhole(WaitingContributors(roster)), 4u);
}

TEST_F(WaitingContributorsTest, ItIsNotWholeWhileOneOfItsProcessesMeetsTheOthers) {
  Come(1, "a", 2, 0).join.meets = true;
  EXPECT_TRUE(WaitingContributors(roster)[0].meets);
  Come(2, "a", 2, 1);
  EXPECT_FALSE(AnyWhole(WaitingContributors(roster)));
  roster.Find(1)->join.meets = false;
  EXPECT_TRUE(AnyWhole(WaitingContributors(roster)));
}

TEST_F(WaitingContributorsTest, WhatItLacksIsSaidByItsMachinesName) {
  Come(1, "key", 3, 1);
  EXPECT_EQ(LackOf(WaitingContributors(roster)[0]), "contributor 'key' lacks 2 of its 3 processes");
  roster.Find(1)->join.node = "node-3";
  EXPECT_EQ(LackOf(WaitingContributors(roster)[0]), "node-3 lacks 2 of its 3 processes");
}

}  // namespace
}  // namespace byteps::protocol
