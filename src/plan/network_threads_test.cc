#include "src/plan/network_threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace byteps::plan {
namespace {

const std::vector<uint32_t> kCores = {1, 2, 3, 4, 7, 8, 16, 31, 32, 64, 256};
const std::vector<uint64_t> kRates = {0,      1,      200,     9'999,      10'000,        10'001,
                                      25'000, 40'000, 100'000, 10'000'000, UINT64_MAX / 2};

template <typename Check>
void ForAll(Check check) {
  for (uint32_t links = 1; links <= 10; ++links) {
    for (uint32_t cores : kCores) {
      for (uint64_t rate : kRates) check(NetworkShare{cores, rate, links});
    }
  }
}

TEST(NetworkThreads, EachLinkHasEquallyManyAndOneAtLeast) {
  ForAll([](const NetworkShare& share) {
    for (uint32_t shards : {1U, 2U, 3U, 8U, 100U}) {
      uint32_t lanes = ChooseLanes(share, shards).count;
      EXPECT_GE(lanes, share.links);
      EXPECT_EQ(lanes % share.links, 0U);
    }
    EXPECT_GE(ChooseShards(share).count, share.links);
    EXPECT_EQ(ChooseShards(share).count % share.links, 0U);
  });
}

TEST(NetworkThreads, NoLimitIsExceededBeyondAThreadForEachLink) {
  ForAll([](const NetworkShare& share) {
    for (uint32_t shards : {1U, 2U, 3U, 8U, 100U}) {
      uint32_t lanes = ChooseLanes(share, shards).count;
      EXPECT_LE(lanes, std::max(share.links, shards));
      EXPECT_LE(lanes, std::max(share.links, share.cores / 4));
      EXPECT_LE(lanes, std::max(share.links, kNetworkThreadsMax));
    }
    EXPECT_LE(ChooseShards(share).count, std::max(share.links, share.cores / 2));
    EXPECT_LE(ChooseShards(share).count, std::max(share.links, kNetworkThreadsMax));
  });
}

TEST(NetworkThreads, FasterLinksAndMoreCoresNeverGetFewer) {
  ForAll([](const NetworkShare& share) {
    NetworkShare faster = share;
    faster.link_mbit += 5'000;
    NetworkShare larger = share;
    ++larger.cores;
    for (const NetworkShare& more : {faster, larger}) {
      EXPECT_GE(ChooseLanes(more, 8).count, ChooseLanes(share, 8).count);
      EXPECT_GE(ChooseShards(more).count, ChooseShards(share).count);
    }
    EXPECT_GE(ChooseLanes(share, 9).count, ChooseLanes(share, 8).count);
  });
}

TEST(NetworkThreads, WhereNothingElseLimitsTheyCarryTheLinksAndNotMuchMore) {
  ForAll([](NetworkShare share) {
    share.cores = 1 << 20;
    NetworkThreads chosen = ChooseLanes(share, 1 << 20);
    EXPECT_EQ(chosen.count, ChooseShards(share).count);
    if (share.link_mbit == 0) {
      EXPECT_EQ(chosen.count, share.links);
    } else if (chosen.limit == ThreadLimit::kRate) {
      uint64_t each = chosen.count / share.links;
      EXPECT_GE(each * kMbitPerThread, share.link_mbit);
      EXPECT_LT((each - 1) * kMbitPerThread, share.link_mbit);
    }
  });
}

TEST(NetworkThreads, FarServersHaveAtLeastAsManyShardsAndEnoughConnectionsTogether) {
  ForAll([](const NetworkShare& share) {
    for (uint32_t servers : {1U, 2U, 3U, 4U, 5U, 64U}) {
      const uint32_t shards = ChooseFarShards(share, servers);
      EXPECT_GE(shards, ChooseShards(share).count);
      EXPECT_EQ(shards % share.links, 0U);
      EXPECT_LE(shards, std::max(share.links, kNetworkThreadsMax) + share.links - 1);
      EXPECT_GE(shards * servers, kConnectionsOfLongPath);
      EXPECT_LE(ChooseFarShards(share, servers + 1), shards);
      NetworkShare faster = share;
      faster.link_mbit += 500;
      EXPECT_GE(ChooseFarShards(faster, servers), shards);
    }
  });
}

TEST(NetworkThreads, WhatFarServersGet) {
  EXPECT_EQ(ChooseFarShards({2, 0, 1}, 1), 4U);
  EXPECT_EQ(ChooseFarShards({2, 500, 1}, 1), 4U);
  EXPECT_EQ(ChooseFarShards({2, 0, 1}, 2), 2U);
  EXPECT_EQ(ChooseFarShards({2, 0, 1}, 4), 1U);
  EXPECT_EQ(ChooseFarShards({2, 1'000, 1}, 1), 8U);
  EXPECT_EQ(ChooseFarShards({2, 1'000, 1}, 4), 2U);
  EXPECT_EQ(ChooseFarShards({2, 0, 3}, 1), 6U);
}

TEST(NetworkThreads, WhatTheUsualMachinesGet) {
  EXPECT_EQ(ChooseLanes({2, 0, 1}, 2).count, 1U);
  EXPECT_EQ(ChooseLanes({16, 1'000, 1}, 4).count, 1U);
  EXPECT_EQ(ChooseLanes({16, 10'000, 1}, 4).count, 1U);
  EXPECT_EQ(ChooseLanes({32, 25'000, 1}, 12).count, 3U);
  EXPECT_EQ(ChooseLanes({64, 100'000, 1}, 128).count, 8U);
  EXPECT_EQ(ChooseLanes({8, 25'000, 1}, 12).count, 2U);
  EXPECT_EQ(ChooseLanes({16, 10'000, 2}, 4).count, 2U);
  EXPECT_EQ(ChooseShards({16, 25'000, 1}).count, 3U);
  EXPECT_EQ(ChooseShards({2, 0, 2}).count, 2U);
}

TEST(NetworkThreads, TheLogSaysWhatDecided) {
  NetworkShare share{8, 25'000, 1};
  EXPECT_EQ(ChooseLanes(share, 12), (NetworkThreads{2, ThreadLimit::kCores}));
  EXPECT_EQ(WhyText(ChooseLanes(share, 12), share),
            "the link has 25000 Mbit/s, but this process may use only 8 cores");
  EXPECT_EQ(ChooseLanes(share, 1), (NetworkThreads{1, ThreadLimit::kShards}));
  share.link_mbit = 0;
  EXPECT_EQ(ChooseLanes(share, 12), (NetworkThreads{1, ThreadLimit::kUnknownRate}));
  share = {64, 25'000, 1};
  EXPECT_EQ(ChooseLanes(share, 12), (NetworkThreads{3, ThreadLimit::kRate}));
  share.link_mbit = 400'000;
  EXPECT_EQ(ChooseLanes(share, 99), (NetworkThreads{8, ThreadLimit::kMaximum}));
}

}  // namespace
}  // namespace byteps::plan
