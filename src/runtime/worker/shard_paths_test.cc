#include "src/runtime/worker/shard_paths.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace byteps::runtime {
namespace {

using Addresses = std::vector<std::string>;
using Own = std::vector<OwnAddress>;

const Addresses kTwo = {"10.1.0.9:7", "10.2.0.9:8"};

ShardPath Best(const Addresses& addresses, uint32_t number, const Own& own) {
  return PathsTo(addresses, number, own).front();
}

TEST(ShardPaths, ALaneStaysInTheNetworkOfItsInterface) {
  for (uint32_t number = 0; number < 4; ++number) {
    EXPECT_EQ(Best(kTwo, number, {{"10.1.0.1", 16}}), (ShardPath{"10.1.0.9:7", "10.1.0.1"}));
    EXPECT_EQ(Best(kTwo, number, {{"10.2.0.1", 16}}), (ShardPath{"10.2.0.9:8", "10.2.0.1"}));
  }
}

TEST(ShardPaths, WithoutAnInterfaceTheShardsShareThoseOfTheServer) {
  EXPECT_EQ(Best(kTwo, 0, {}), (ShardPath{"10.1.0.9:7", ""}));
  EXPECT_EQ(Best(kTwo, 1, {}), (ShardPath{"10.2.0.9:8", ""}));
  EXPECT_EQ(Best(kTwo, 2, {}), (ShardPath{"10.1.0.9:7", ""}));
  EXPECT_EQ(Best({"host:1"}, 5, {}), (ShardPath{"host:1", ""}));
}

TEST(ShardPaths, SoTheyDoInOneNetworkAndBehindARouter) {
  const Addresses one_network = {"10.1.0.8:7", "10.1.0.9:7"};
  EXPECT_EQ(Best(one_network, 0, {{"10.1.0.1", 24}}), (ShardPath{"10.1.0.8:7", "10.1.0.1"}));
  EXPECT_EQ(Best(one_network, 1, {{"10.1.0.1", 24}}), (ShardPath{"10.1.0.9:7", "10.1.0.1"}));
  EXPECT_EQ(Best(kTwo, 0, {{"10.7.0.1", 16}}), (ShardPath{"10.1.0.9:7", "10.7.0.1"}));
  EXPECT_EQ(Best(kTwo, 1, {{"10.7.0.1", 16}}), (ShardPath{"10.2.0.9:8", "10.7.0.1"}));
}

TEST(ShardPaths, AnAddressOfAnotherVersionIsNoSource) {
  const Own both = {{"10.7.0.1", 16}, {"fd00::1", 64}};
  EXPECT_EQ(Best({"[fd00::9]:7"}, 0, both), (ShardPath{"[fd00::9]:7", "fd00::1"}));
  EXPECT_EQ(Best({"[fd01::9]:7", "10.7.0.9:7"}, 0, both), (ShardPath{"10.7.0.9:7", "10.7.0.1"}));
  EXPECT_EQ(Best({"[fd00::9]:7"}, 0, {{"10.7.0.1", 16}}), (ShardPath{"[fd00::9]:7", ""}));
}

TEST(ShardPaths, WhenTheBestIsBrokenTheOthersFollowAndThenTheSystemsOwn) {
  EXPECT_EQ(PathsTo(kTwo, 0, Own{{"10.2.0.1", 16}}),
            (std::vector<ShardPath>{{"10.2.0.9:8", "10.2.0.1"},
                                    {"10.1.0.9:7", "10.2.0.1"},
                                    {"10.2.0.9:8", ""},
                                    {"10.1.0.9:7", ""}}));
  EXPECT_EQ(PathsTo(kTwo, 1, Own{}),
            (std::vector<ShardPath>{{"10.2.0.9:8", ""}, {"10.1.0.9:7", ""}}));
  EXPECT_TRUE(PathsTo(Addresses{}, 0, Own{}).empty());
}

}  // namespace
}  // namespace byteps::runtime
