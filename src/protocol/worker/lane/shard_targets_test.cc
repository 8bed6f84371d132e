#include "src/protocol/worker/lane/shard_targets.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

using Shards = std::vector<ShardId>;

class ShardTargetsTest : public testing::Test {
 protected:
  // Two servers with two shards each.
  ShardTargetsTest() {
    view.generation = 1;
    for (uint32_t index : {0U, 1U}) {
      wire::ServerInfo server;
      server.index = index;
      server.incarnation = 10 + index;
      server.first_shard = 2 * index;
      server.shard_weights = {1, 1};
      view.servers.push_back(server);
    }
  }

  wire::View view;
  ShardTargets all{0, 1};
};

TEST_F(ShardTargetsTest, TheFirstViewAsksForAllAndEndsNone) {
  EXPECT_TRUE(all.End(view).empty());
  EXPECT_EQ(all.TakeNew(), (Shards{0, 1, 2, 3}));
  EXPECT_TRUE(all.TakeNew().empty()) << "once";
  EXPECT_TRUE(all.End(view).empty()) << "nothing has changed";
  EXPECT_TRUE(all.TakeNew().empty());
}

TEST_F(ShardTargetsTest, ALaneConnectsToItsOwnShards) {
  ShardTargets odd(1, 2);
  EXPECT_TRUE(odd.End(view).empty());
  EXPECT_EQ(odd.TakeNew(), (Shards{1, 3}));
  EXPECT_EQ(odd.all()[2].incarnation, 0U);
  EXPECT_EQ(odd.all()[3].incarnation, 11U);
  view.servers[0].alive = false;
  EXPECT_EQ(odd.End(view), (Shards{1}));
}

TEST_F(ShardTargetsTest, AShardHasAllAddressesOfItsServer) {
  view.servers[1].address = "a:1";
  view.servers[1].more_addresses = {"b:1", "c:1"};
  all.End(view);
  EXPECT_EQ(all.all()[3].addresses, (std::vector<std::string>{"a:1", "b:1", "c:1"}));
  EXPECT_EQ(all.all()[0].addresses.size(), 1U);
}

TEST_F(ShardTargetsTest, AServerThatDiesAndComesBackIsConnectedAnew) {
  all.End(view);
  all.TakeNew();
  view.servers[1].alive = false;
  EXPECT_EQ(all.End(view), (Shards{2, 3}));
  EXPECT_TRUE(all.TakeNew().empty());
  view.servers[1].alive = true;
  view.servers[1].incarnation = 20;
  EXPECT_TRUE(all.End(view).empty());
  EXPECT_EQ(all.TakeNew(), (Shards{2, 3}));
  view.servers[1].incarnation = 21;  // no view comes in between
  EXPECT_EQ(all.End(view), (Shards{2, 3}));
  EXPECT_EQ(all.TakeNew(), (Shards{2, 3}));
}

TEST_F(ShardTargetsTest, AGenerationEndsAllConnections) {
  all.End(view);
  all.TakeNew();
  view.generation = 2;
  EXPECT_EQ(all.End(view), (Shards{0, 1, 2, 3}));
  EXPECT_EQ(all.TakeNew(), (Shards{0, 1, 2, 3}));
  EXPECT_EQ(all.generation(), 2U);
  view.generation = 3;
  view.servers.pop_back();
  EXPECT_EQ(all.End(view), (Shards{0, 1, 2, 3}));
  EXPECT_EQ(all.TakeNew(), (Shards{0, 1}));
}

}  // namespace
}  // namespace byteps::protocol
