// Placement sees a job as hosts with one link each, contributors and servers.
#include "src/protocol/control/members/host_map.h"

#include <string>

#include <gtest/gtest.h>

#include "src/plan/placement.h"

namespace byteps::protocol {
namespace {

void AddWorker(wire::View& view, const std::string& host, Slot slot) {
  auto rank = static_cast<uint32_t>(view.workers.size());
  view.workers.push_back({.slot = slot, .rank = rank, .incarnation = 100 + rank, .host = host});
}

void AddServer(wire::View& view, const std::string& host) {
  wire::ServerInfo server;
  server.index = static_cast<uint32_t>(view.servers.size());
  server.incarnation = 200 + server.index;
  server.host = host;
  server.shard_weights = {1};
  view.servers.push_back(server);
}

// Three machines of 4, 2 and 1 ranks with a server beside them, and a server by itself.
wire::View Machines(bool as_one) {
  wire::View view;
  Slot slot = 0;
  uint32_t machine = 0;
  for (uint32_t ranks : {4, 2, 1}) {
    std::string host = "m" + std::to_string(machine++);
    for (uint32_t rank = 0; rank < ranks; ++rank) AddWorker(view, host, as_one ? slot : slot++);
    if (as_one) ++slot;
    AddServer(view, host);
  }
  AddServer(view, "alone");
  return view;
}

TEST(HostMapTest, CountsContributorsAndNotRanks) {
  HostMap map(Machines(true), Roster());
  ASSERT_EQ(map.hosts().size(), 4u);
  for (size_t host : {0, 1, 2}) {
    EXPECT_EQ(map.hosts()[host].workers, 1u);
    EXPECT_EQ(map.hosts()[host].servers, 1u);
  }
  EXPECT_EQ(map.hosts()[3].workers, 0u);
  EXPECT_EQ(map.OfWorker(103), 0u) << "rank 3 is of the first machine";
  EXPECT_EQ(map.OfShard(3), 3u);

  HostMap ranks(Machines(false), Roster());
  EXPECT_EQ(ranks.hosts()[0].workers, 4u);
  EXPECT_EQ(ranks.hosts()[2].workers, 1u);
}

// The closed form for n machines with a server each and k servers alone: t = 2 n (n - 1) / ((n^2 +
// k n - 2 k) B).
TEST(HostMapTest, TheSplitOfMachinesIsTheClosedForm) {
  auto shares = plan::ComputeShares(HostMap(Machines(true), Roster()).hosts());
  ASSERT_TRUE(shares.ok());
  double n = 3;
  double k = 1;
  double t = 2 * n * (n - 1) / (n * n + k * n - 2 * k);
  EXPECT_DOUBLE_EQ(shares->time_per_byte, t);
  // A server beside workers has less of its link to give.
  for (size_t host : {0, 1, 2}) EXPECT_DOUBLE_EQ(shares->host_share[host], (t - 1) / (n - 2));
  EXPECT_DOUBLE_EQ(shares->host_share[3], t / n);
}

TEST(HostMapTest, RanksThatArePushersOfTheirOwnKeepMoreAtHome) {
  auto shares = plan::ComputeShares(HostMap(Machines(false), Roster()).hosts());
  ASSERT_TRUE(shares.ok());
  EXPECT_DOUBLE_EQ(shares->host_share[0], 1.0) << "4 of 7 contributors are there";
}

}  // namespace
}  // namespace byteps::protocol
