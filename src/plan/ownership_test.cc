#include "src/plan/ownership.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace byteps::plan {
namespace {

constexpr uint64_t kBegan = 3;

TEST(OwnershipTest, AllPiecesAreAtHomeWhileAllShardsLive) {
  Ownership all(std::vector<ShardState>(4), kBegan);
  for (ShardId home = 0; home < 4; ++home) {
    EXPECT_EQ(all.OwnerOf(home, 7, 1), (Owner{home, kBegan}));
  }
}

TEST(OwnershipTest, ALostShardsPiecesAreSpreadByWeight) {
  std::vector<ShardState> shards = {{8}, {8, false, 5}, {4}, {0}};
  Ownership view(shards, kBegan);
  std::map<ShardId, int> counts;
  for (uint32_t piece = 0; piece < 3000; ++piece) ++counts[view.OwnerOf(1, 7, piece).shard];
  EXPECT_EQ(counts.count(1), 0u);
  EXPECT_EQ(counts.count(3), 0u) << "a shard without weight gets nothing";
  EXPECT_NEAR(counts[0], 2000, 150);
  EXPECT_NEAR(counts[2], 1000, 150);
}

TEST(OwnershipTest, AShardWithoutWeightServesWhenItIsAlone) {
  Ownership view({{8, false, 5}, {0}}, kBegan);
  EXPECT_EQ(view.OwnerOf(0, 7, 1), (Owner{1, 5}));
  EXPECT_FALSE(Ownership({{8, false, 5}}, kBegan).any());
}

TEST(OwnershipTest, PiecesMoveByTheWantedWeightsAndAllCountAsMoved) {
  const std::vector<uint32_t> wanted = {1, 3};
  Ownership view({{2}, {2}}, kBegan, wanted, 9);
  std::map<ShardId, int> counts;
  for (uint32_t piece = 0; piece < 1000; ++piece) {
    Owner owner = view.OwnerOf(0, 7, piece);
    ++counts[owner.shard];
    EXPECT_EQ(owner.since, 9u);
    EXPECT_EQ(view.OwnerOf(1, 7, piece), (Owner{1, 9}));
  }
  EXPECT_NEAR(counts[1], 500, 10);
  EXPECT_EQ(Ownership({{2}, {2}}, kBegan, wanted, 0).OwnerOf(0, 7, 1), (Owner{0, kBegan}));
}

TEST(OwnershipTest, APieceWhoseNewPlaceDiesMovesOnAndOnlyThat) {
  const std::vector<uint32_t> wanted = {0, 4, 4};
  Ownership whole({{4}, {2}, {2}}, kBegan, wanted, 9);
  Ownership view({{4}, {2, false, 11}, {2}}, kBegan, wanted, 9);
  for (uint32_t piece = 0; piece < 100; ++piece) {
    Owner before = whole.OwnerOf(0, 7, piece);
    Owner now = view.OwnerOf(0, 7, piece);
    if (before.shard == 2) {
      EXPECT_EQ(now, before);
    } else {
      EXPECT_EQ(now.since, 11u);
      EXPECT_NE(now.shard, 1u);
    }
  }
}

// Compares `since` with its definition, over a history of deaths and returns, view by view.
RC_GTEST_PROP(OwnershipTest, SinceIsTheEpochOfTheLastChangeOfOwner, ()) {
  auto count = *rc::gen::inRange<uint32_t>(1, 6);
  std::vector<ShardState> shards(count);
  for (ShardState& shard : shards) shard.weight = *rc::gen::inRange<uint32_t>(0, 9);
  std::vector<uint32_t> wanted(count);
  for (uint32_t& weight : wanted) weight = *rc::gen::inRange<uint32_t>(0, 9);
  const uint64_t placed = *rc::gen::element<uint64_t>(0, kBegan);
  auto tensor = *rc::gen::arbitrary<TensorId>();
  auto piece = *rc::gen::inRange<uint32_t>(0, 100);
  auto home = *rc::gen::inRange<ShardId>(0, count);
  Owner known = Ownership(shards, kBegan, wanted, placed).OwnerOf(home, tensor, piece);
  auto steps = *rc::gen::container<std::vector<uint32_t>>(rc::gen::inRange<uint32_t>(0, count));
  uint64_t epoch = kBegan;
  bool had_owner = true;
  for (uint32_t turned : steps) {
    ++epoch;
    shards[turned].alive = !shards[turned].alive;
    shards[turned].since = epoch;
    Ownership view(shards, kBegan, wanted, placed);
    if (!view.any()) {
      had_owner = false;
      continue;
    }
    Owner now = view.OwnerOf(home, tensor, piece);
    RC_ASSERT(shards[now.shard].alive);
    if (now.shard != known.shard || !had_owner) {
      RC_ASSERT(now.since == epoch);
    } else {
      RC_ASSERT(now.since == known.since);
    }
    known = now;
    had_owner = true;
  }
}

}  // namespace
}  // namespace byteps::plan
