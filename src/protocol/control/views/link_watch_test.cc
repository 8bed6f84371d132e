#include "src/protocol/control/views/link_watch.h"

#include <gtest/gtest.h>

#include <numeric>

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

// Two workers and four servers, each on a host of its own.
wire::View Spread(uint64_t epoch) {
  wire::View view = JobView(epoch, 2, 4);
  for (wire::WorkerInfo& worker : view.workers) worker.host = "w" + std::to_string(worker.slot);
  for (wire::ServerInfo& server : view.servers) {
    server.host = "s" + std::to_string(server.index);
    server.first_shard = server.index;
  }
  return view;
}

class LinkWatchTest : public testing::Test {
 protected:
  // Sends a measurement of both workers in which server 0 holds up the others. `burst_bytes`: the
  // bytes of a burst of one second, unless 0.
  static void Hear(LinkWatch& watch, uint64_t epoch, uint64_t busy_of_others,
                   uint64_t burst_bytes) {
    for (uint64_t worker : {1, 2}) {
      wire::Rates rates{epoch, {}, burst_bytes, burst_bytes == 0 ? 0U : 1'000'000U};
      for (ShardId shard = 0; shard < 4; ++shard) {
        rates.shards.push_back(
            {shard, 25'000'000, shard == 0 ? 1'000'000 : busy_of_others, 1'000'000});
      }
      watch.Hear(worker, rates);
    }
  }
  void HearOf(uint64_t epoch, uint64_t busy_of_others = 600'000) {
    Hear(watch, epoch, busy_of_others, 0);
  }

  CoordinatorOptions options;
  ControlDriver driver;
  Roster roster;
  LinkWatch watch{options, driver, roster};
};

TEST_F(LinkWatchTest, ASlowServerGetsLessInTheNextView) {
  watch.OnView(Spread(3));
  for (int i = 0; i < 60 && !watch.Wants(); ++i) HearOf(3);
  ASSERT_TRUE(watch.Wants());
  wire::View next = Spread(4);
  watch.Place(next, 4);
  EXPECT_FALSE(watch.Wants());
  EXPECT_EQ(next.placed, 4u);
  for (int i = 1; i < 4; ++i) {
    EXPECT_LT(2 * next.servers[0].placed_weights[0], next.servers[i].placed_weights[0]);
  }
  EXPECT_EQ(next.servers[0].shard_weights, std::vector<uint32_t>{1})
      << "pieces are dealt as before";
  EXPECT_TRUE(driver.Said("measured links: pieces move"));
  EXPECT_TRUE(driver.Said("(was 25.0; 400.0 Mbit/s)"));
}

TEST_F(LinkWatchTest, ADeadServerGetsNothingAndAMoveGivesItItsPartAgain) {
  wire::View view = Spread(3);
  view.servers[3].alive = false;
  watch.OnView(view);
  for (int i = 0; i < 60 && !watch.Wants(); ++i) HearOf(3);
  wire::View next = view;
  watch.Place(next, 4);
  EXPECT_EQ(next.servers[3].placed_weights, std::vector<uint32_t>{0});
  next.epoch = 5;
  next.servers[3].alive = true;
  watch.OnView(next);
  for (int i = 0; i < 400 && !watch.Wants(); ++i) HearOf(5);
  ASSERT_TRUE(watch.Wants());
  watch.Place(next, 6);
  EXPECT_GT(next.servers[3].placed_weights[0], next.servers[0].placed_weights[0]);
}

// Pieces have moved and little was promised. Only whole bursts show that the move did not help.
TEST_F(LinkWatchTest, WholeBurstsTellWhatAMoveWasWorth) {
  for (uint64_t after : {800'000, 1'300'000}) {
    LinkWatch fresh{options, driver, roster};
    fresh.OnView(Spread(3));
    for (int i = 0; i < 60 && !fresh.Wants(); ++i) Hear(fresh, 3, 850'000, 1'000'000);
    ASSERT_TRUE(fresh.Wants());
    wire::View next = Spread(4);
    fresh.Place(next, 4);
    fresh.OnView(next);
    for (int i = 0; i < 9 && !fresh.Wants(); ++i) Hear(fresh, 4, 1'000'000, after);
    EXPECT_EQ(fresh.Wants(), after < 1'000'000);
  }
}

TEST_F(LinkWatchTest, ItWaitsForEveryWorkerAndForItsMeasurement) {
  watch.OnView(Spread(3));
  wire::Rates one{3,
                  {{0, 1000, 50'000, 50'000},
                   {1, 1000, 10'000, 50'000},
                   {2, 1000, 10'000, 50'000},
                   {3, 1000, 10'000, 50'000}}};
  for (int i = 0; i < 100; ++i) watch.Hear(1, one);
  EXPECT_FALSE(watch.Wants()) << "worker 2 has said nothing";
  for (int i = 0; i < 100; ++i) watch.Hear(77, one);
  EXPECT_FALSE(watch.Wants()) << "that is no member";
}

TEST_F(LinkWatchTest, WhatWasMeasuredInAnotherViewCountsForNothing) {
  watch.OnView(Spread(3));
  for (int i = 0; i < 60; ++i) HearOf(2);
  EXPECT_FALSE(watch.Wants());
}

TEST_F(LinkWatchTest, EquallyBusyServersStayAsTheyAre) {
  watch.OnView(Spread(3));
  for (int i = 0; i < 200; ++i) HearOf(3, 1'000'000);
  EXPECT_FALSE(watch.Wants());
}

TEST_F(LinkWatchTest, ADeclaredLinkIsBelieved) {
  for (uint64_t server : {101, 102, 103, 104}) {
    roster.Add(server, JoinOf(Role::kServer, server)).join.link_mbit = 1000;
  }
  watch.OnView(Spread(3));
  for (int i = 0; i < 200; ++i) HearOf(3);
  EXPECT_FALSE(watch.Wants());
}

TEST_F(LinkWatchTest, OnOneMachineNoLinkIsUsed) {
  watch.OnView(JobView(3, 2, 4));
  for (int i = 0; i < 200; ++i) HearOf(3);
  EXPECT_FALSE(watch.Wants());
}

TEST_F(LinkWatchTest, NonsenseIsIgnored) {
  watch.OnView(Spread(3));
  watch.Hear(1, {3, {{UINT32_MAX, 1, 1, 1}, {4, 1, 1, 1}}});
  watch.Hear(1, {3, {{0, UINT64_MAX, UINT64_MAX, 1}}});
  watch.Hear(2, {3, {}});
  EXPECT_FALSE(watch.Wants());
}

}  // namespace
}  // namespace byteps::protocol
