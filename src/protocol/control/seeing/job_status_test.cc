// The status shows members as in the view, silent, away or waiting.
#include "src/protocol/control/seeing/job_status.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

class JobStatusTest : public testing::Test {
 protected:
  JobStatusTest() {
    view.epoch = 1;
    view.workers = {{0, 0, 100, "a", 41}, {1, 1, 101, "a", 42}};
    view.servers = {{0, 200, "b", "b:1", 43, 0, {1}, true, 1}};
    Add(1, 100, Role::kWorker, 0);
    Add(2, 200, Role::kServer, 0);
    for (uint64_t one : {100, 101, 200}) suspicions.Watch(one, one, seconds(5), now);
  }
  void Add(ConnectionId connection, uint64_t incarnation, Role role, int32_t rank) {
    wire::Join join;
    join.role = role;
    join.incarnation = incarnation;
    join.rank = rank;
    join.node = "vm";
    roster.Add(connection, join).presence = rank < 2 ? Presence::kIn : Presence::kWaiting;
  }
  std::vector<MemberStatus> Look() const {
    return MembersStatus(view, roster, suspicions, accounts, now);
  }

  Time now{};
  wire::View view;
  Roster roster;
  Suspicions suspicions{milliseconds(100)};
  Accounts accounts{Duration()};
};

TEST_F(JobStatusTest, WhoIsNotConnectedIsAway) {
  std::vector<MemberStatus> members = Look();
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[0].state, MemberState::kIn);
  EXPECT_EQ(members[0].node, "vm");
  EXPECT_EQ(members[1].state, MemberState::kAway);
  EXPECT_EQ(members[1].process, 42u);
  EXPECT_EQ(members[2].role, Role::kServer);
  EXPECT_EQ(members[2].address, "b:1");
}

TEST_F(JobStatusTest, WhoSaysNothingIsSilent) {
  now += milliseconds(800);
  suspicions.Heard(200, now);
  std::vector<MemberStatus> members = Look();
  EXPECT_EQ(members[0].state, MemberState::kSilent);
  EXPECT_EQ(members[0].silent, milliseconds(800));
  EXPECT_EQ(members[2].state, MemberState::kIn);
}

TEST_F(JobStatusTest, WhoWaitsIsShownWithItsWish) {
  Add(3, 105, Role::kWorker, 5);
  std::vector<MemberStatus> members = Look();
  ASSERT_EQ(members.size(), 4u);
  EXPECT_EQ(members[2].state, MemberState::kWaits);
  EXPECT_EQ(members[2].index, 5u);
}

TEST_F(JobStatusTest, AWorkerHasItsAccountAndItsLateness) {
  wire::Account account;
  account.took = {{7, 1, 1000}};
  accounts.Take(0, 100, account, now);
  account.took = {{7, 1, 101000}};
  accounts.Take(1, 101, account, now);
  std::vector<MemberStatus> members = Look();
  ASSERT_TRUE(members[0].late.has_value());
  EXPECT_EQ(members[0].late->mean_ms, 100);
  JobStatus status;
  status.members = members;
  EXPECT_EQ(TensorsIn(status), std::vector<TensorId>{7});
}

TEST_F(JobStatusTest, AServerHasItsAccount) {
  EXPECT_FALSE(Look()[2].server.has_value());
  const wire::ServerAccount account{10, 20, 30, {{"rdma mlx5_0", 4, {0, 1, 9}}, {"tcp", 1, {1}}}};
  accounts.TakeServer(200, account, now);
  accounts.TakeServer(201, {1, 2, 3, {}}, now);
  const std::vector<MemberStatus> members = Look();
  ASSERT_TRUE(members[2].server.has_value());
  EXPECT_EQ(members[2].server->account, account);
  ASSERT_EQ(members[2].ways.size(), 2u);
  EXPECT_EQ(members[2].ways[0].over, "rdma mlx5_0");
  EXPECT_EQ(members[2].ways[0].connections, 4u);
  EXPECT_EQ(members[2].ways[0].ranks, (std::vector<uint32_t>{0, 1}));  // nobody has slot 9
  EXPECT_EQ(members[2].ways[1].ranks, std::vector<uint32_t>{1});
  EXPECT_FALSE(members[0].server.has_value());
}

}  // namespace
}  // namespace byteps::protocol
