#include "src/protocol/control/views/next_view.h"

#include <gtest/gtest.h>

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

std::vector<uint32_t> RanksOf(const std::vector<wire::WorkerInfo>& workers) {
  std::vector<uint32_t> ranks;
  for (const wire::WorkerInfo& one : workers) ranks.push_back(one.rank);
  return ranks;
}

TEST(NextViewTest, TheFirstViewHasAllWhoWaitAndNamesTheMissingRanks) {
  Roster roster;
  Add(roster, Role::kServer, 101, Presence::kWaiting, 0);
  Add(roster, Role::kWorker, 3, Presence::kWaiting, 2);
  Add(roster, Role::kWorker, 1, Presence::kWaiting, 0);
  Add(roster, Role::kWorker, 9, Presence::kLeft, 1);
  wire::View first = FirstOfGeneration({}, roster, {}, 4);
  EXPECT_EQ(first.epoch, 1u);
  EXPECT_EQ(first.generation, 1u);
  EXPECT_EQ(RanksOf(first.workers), (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(RanksOf(first.gone), (std::vector<uint32_t>{1, 3}));
  ASSERT_EQ(first.servers.size(), 1u);
  EXPECT_TRUE(first.servers[0].alive);
  EXPECT_EQ(first.piece_bytes_max, 4096u);
}

TEST(NextViewTest, AJobThatGoesOnDropsWhoLeavesAndOneThatDoesNotKeepsIt) {
  Departures departures;
  departures.Lose(1, "closed");
  departures.Leave(2);
  wire::View goes_on = JobView(1, 3, 1);
  DropWorkers(goes_on, {}, departures, true, kCoordinatorRules);
  EXPECT_EQ(RanksOf(goes_on.workers), (std::vector<uint32_t>{2}));
  EXPECT_EQ(RanksOf(goes_on.gone), (std::vector<uint32_t>{0, 1}));
  wire::View stays = JobView(1, 3, 1);
  DropWorkers(stays, {}, departures, false, kCoordinatorRules);
  EXPECT_EQ(RanksOf(stays.workers), (std::vector<uint32_t>{1, 2}));
  EXPECT_TRUE(stays.workers[0].left);
}

TEST(NextViewTest, AServerThatWaitsTakesThePlaceOfOneThatIsLost) {
  Roster roster;
  Add(roster, Role::kServer, 201, Presence::kWaiting, 1);
  Departures departures;
  departures.Lose(101, "closed");
  departures.Lose(102, "closed");
  wire::View next = JobView(4, 1, 2);
  PlaceServers(next, roster, departures, 5);
  EXPECT_FALSE(next.servers[0].alive);
  EXPECT_TRUE(next.servers[1].alive);
  EXPECT_EQ(next.servers[1].incarnation, 201u);
  EXPECT_EQ(next.servers[0].since, 5u);
  EXPECT_EQ(next.servers[1].since, 5u);
}

TEST(NextViewTest, WhoIsLetInGetsANewSlotAndItsRankOrTheLowestFreeOne) {
  Roster roster;
  Add(roster, Role::kWorker, 11, Presence::kWaiting, 1);
  Add(roster, Role::kWorker, 12, Presence::kWaiting, 5);
  wire::View next = JobView(4, 3, 1);
  next.workers.erase(next.workers.begin());  // rank 0 is free
  next.workers[1].left = true;
  next.gone.resize(1);
  AdmitWorkers(next, roster, 7, 5);
  EXPECT_EQ(RanksOf(next.workers), (std::vector<uint32_t>{1, 0, 5})) << "rank 1 is taken";
  EXPECT_EQ(next.workers[1].slot, 7u);
  EXPECT_EQ(next.workers[2].slot, 8u);
  EXPECT_EQ(next.generation, 2u);
  EXPECT_EQ(next.began, 5u);
  EXPECT_TRUE(next.gone.empty());
}

// Rank 5 is taken, so the contributor gets ranks 0 and 4; the first process is its carrier.
TEST(NextViewTest, OfAContributorTheFirstProcessGetsTheLowestRank) {
  Roster roster;
  Add(roster, Role::kWorker, 11, Presence::kWaiting, 4);
  Add(roster, Role::kWorker, 12, Presence::kWaiting, 5);
  for (uint64_t id : {11u, 12u}) {
    wire::Join& join = roster.Find(id)->join;
    join.contributor = "a";
    join.contributor_size = 2;
    join.local_rank = id == 11 ? 0 : 1;
  }
  wire::View next = JobView(4, 2, 1);
  next.workers[0].rank = 5;
  next.workers[1].rank = 1;
  AdmitWorkers(next, roster, 7, 5);
  ASSERT_EQ(next.workers.size(), 4u);
  EXPECT_EQ(next.workers[2].incarnation, 11u);
  EXPECT_EQ(next.workers[2].rank, 0u);
  EXPECT_EQ(next.workers[3].incarnation, 12u);
  EXPECT_EQ(next.workers[3].rank, 4u);
}

TEST(NextViewTest, SharesFollowTheLinksOfTheHosts) {
  Roster roster;
  roster.Add(102, JoinOf(Role::kServer, 102)).join.link_mbit = 4000;
  roster.Add(101, JoinOf(Role::kServer, 101)).join.link_mbit = 1000;
  wire::View view = JobView(1, 2, 2);
  view.workers[1].host = "g";
  view.servers[1].host = "far";
  view.servers[0].shard_weights = {0, 0};
  ASSERT_TRUE(Weigh(view, roster).ok());
  EXPECT_EQ(view.servers[1].first_shard, 2u);
  EXPECT_EQ(view.servers[0].shard_weights[0], view.servers[0].shard_weights[1]);
  EXPECT_LT(2 * view.servers[0].shard_weights[0], view.servers[1].shard_weights[0]);
}

}  // namespace
}  // namespace byteps::protocol
