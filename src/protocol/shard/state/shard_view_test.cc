#include "src/protocol/shard/state/shard_view.h"

#include <gtest/gtest.h>

#include "src/protocol/shard/room_for_test.h"

namespace byteps::protocol {
namespace {

TEST(ShardViewTest, WhatWasSaidBeforeThePieceCameDoesNotCount) {
  wire::View two = ViewFor(1, 1);
  two.servers.push_back(two.servers[0]);
  two.servers[1].index = two.servers[1].first_shard = 1;
  ShardView view(ShardRules::Default());
  EXPECT_TRUE(view.Set(two, 0));
  EXPECT_TRUE(view.Counts({7, 0, 1}, 0, 1).has_value());
  EXPECT_FALSE(view.Counts({7, 0, 1}, 1, 1).has_value()) << "it is the other's";
  two.epoch = 5;
  two.servers[1].alive = false;
  two.servers[1].since = 5;
  EXPECT_FALSE(view.Set(two, 0)) << "the same generation";
  EXPECT_EQ(view.Counts({7, 0, 1}, 1, 5), std::optional<uint64_t>(5));
  EXPECT_FALSE(view.Counts({7, 0, 1}, 1, 4).has_value());
  EXPECT_TRUE(view.Stays(7, 0, 0, 4));
  EXPECT_FALSE(view.Stays(7, 0, 1, 4)) << "it has just come";
  EXPECT_TRUE(view.AlwaysMine(1));
  EXPECT_FALSE(view.AlwaysMine(5));
  EXPECT_FALSE(view.IsShard(2));
}

TEST(ShardViewTest, WithoutALivingShardNobodyOwnsAnything) {
  wire::View none = ViewFor(1, 1);
  none.servers[0].alive = false;
  ShardView view(ShardRules::Default());
  view.Set(none, 0);
  EXPECT_FALSE(view.Counts({7, 0, 1}, 0, 1).has_value());
  EXPECT_FALSE(view.Stays(7, 0, 0, 1)) << "what it knew is worth nothing";
}

TEST(ShardViewTest, OnlyAnotherGenerationBeginsOne) {
  wire::View one = ViewFor(1, 1);
  ShardView view(ShardRules::Default());
  EXPECT_EQ(view.epoch(), 0u);
  EXPECT_TRUE(view.Set(one, 0));
  one.epoch = 9;
  EXPECT_FALSE(view.Set(one, 0));
  EXPECT_EQ(view.epoch(), 9u);
  one.generation = 2;
  one.began = one.epoch = 10;
  EXPECT_TRUE(view.Set(one, 0));
  EXPECT_EQ(view.generation(), 2u);
  EXPECT_EQ(view.began(), 10u);
}

}  // namespace
}  // namespace byteps::protocol
