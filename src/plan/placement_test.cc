#include "src/plan/placement.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace byteps::plan {
namespace {

// --- An oracle that shares nothing with the closed form but the model ----------------------------

double LinkOf(const Host& host) { return host.link == 0 ? 1.0 : static_cast<double>(host.link); }

// Counts every flow of a round one by one: worker by worker, host by host.
double TimeByFlows(const std::vector<Host>& hosts, const std::vector<double>& shares) {
  std::vector<double> sent(hosts.size(), 0.0);
  std::vector<double> received(hosts.size(), 0.0);
  for (size_t from = 0; from < hosts.size(); ++from) {
    for (uint32_t worker = 0; worker < hosts[from].workers; ++worker) {
      for (size_t to = 0; to < hosts.size(); ++to) {
        if (to == from) continue;
        sent[from] += shares[to];  // push
        received[to] += shares[to];
        sent[to] += shares[to];  // answer
        received[from] += shares[to];
      }
    }
  }
  double time = 0;
  for (size_t i = 0; i < hosts.size(); ++i) {
    time = std::max({time, sent[i] / LinkOf(hosts[i]), received[i] / LinkOf(hosts[i])});
  }
  return time;
}

// Returns whether a round can end within `time`. Each host's load bounds its share from above or
// from below, and the shares must be able to sum to 1.
bool IsFeasible(const std::vector<Host>& hosts, double time) {
  double workers = 0;
  for (const Host& host : hosts) workers += host.workers;
  double lowest_sum = 0;
  double highest_sum = 0;
  for (const Host& host : hosts) {
    double lowest = 0;
    double highest = host.servers > 0 ? 1 : 0;
    const double room = LinkOf(host) * time - host.workers;
    const double width = workers - 2.0 * host.workers;
    if (width > 0) highest = std::min(highest, room / width);
    if (width < 0) lowest = std::max(lowest, room / width);
    if (width == 0 && room < 0) return false;
    if (lowest > highest) return false;
    lowest_sum += lowest;
    highest_sum += highest;
  }
  return lowest_sum <= 1 && highest_sum >= 1;
}

double LeastTimeBySearch(const std::vector<Host>& hosts) {
  double low = 0;
  double high = 1;
  while (!IsFeasible(hosts, high)) high *= 2;
  for (int step = 0; step < 200; ++step) {
    const double middle = (low + high) / 2;
    (IsFeasible(hosts, middle) ? high : low) = middle;
  }
  return high;
}

// --- Random clusters -----------------------------------------------------------------------------

uint64_t AnyLink() {
  return *rc::gen::oneOf(rc::gen::element<uint64_t>(1, 4, 100, 1000),
                         rc::gen::inRange<uint64_t>(1, 2000),
                         rc::gen::inRange<uint64_t>(1'000'000, 50'000'000'000));
}

// Makes hosts with one worker, some of them with a server, and hosts with servers alone.
std::vector<Host> AnyPlainCluster() {
  const uint64_t common = AnyLink();
  const bool equal = *rc::gen::arbitrary<bool>();
  std::vector<Host> hosts;
  const uint32_t workers = *rc::gen::inRange(1U, 20U);
  const uint32_t colocated = *rc::gen::element(0U, workers, *rc::gen::inRange(0U, workers + 1));
  const uint32_t helpers = *rc::gen::inRange(0U, 30U);
  for (uint32_t i = 0; i < workers; ++i) {
    hosts.push_back({equal ? common : AnyLink(), 1, i < colocated ? 1U : 0U});
  }
  for (uint32_t i = 0; i < helpers; ++i) hosts.push_back({equal ? common : AnyLink(), 0, 1});
  if (colocated + helpers == 0) hosts.push_back({common, 0, 1});
  return hosts;
}

// Makes any cluster: several workers and servers per host, or none.
std::vector<Host> AnyMixedCluster() {
  std::vector<Host> hosts;
  const uint32_t count = *rc::gen::inRange(1U, 12U);
  for (uint32_t i = 0; i < count; ++i) {
    hosts.push_back({AnyLink(), *rc::gen::inRange(0U, 9U), *rc::gen::element(0U, 0U, 1U, 2U, 5U)});
  }
  hosts.push_back({AnyLink(), *rc::gen::inRange(0U, 2U), 1});
  return hosts;
}

void CheckOptimal(const std::vector<Host>& hosts) {
  const Result<Shares> result = ComputeShares(hosts);
  RC_ASSERT(result.ok());
  const Shares& shares = result.value();
  double sum = 0;
  for (size_t i = 0; i < hosts.size(); ++i) {
    RC_ASSERT(shares.host_share[i] >= 0);
    RC_ASSERT(hosts[i].servers > 0 || shares.host_share[i] == 0);
    sum += shares.host_share[i];
  }
  RC_ASSERT(std::abs(sum - 1) < 1e-9);
  const double by_flows = TimeByFlows(hosts, shares.host_share);
  const double by_search = LeastTimeBySearch(hosts);
  const double slack = 1e-9 * std::max(by_search, 1e-12);
  RC_ASSERT(std::abs(shares.time_per_byte - by_flows) <= slack);
  RC_ASSERT(std::abs(shares.time_per_byte - by_search) <= slack);
}

RC_GTEST_PROP(PlacementTest, PlainClustersReachTheNumericOptimum, ()) {
  for (int i = 0; i < 50; ++i) CheckOptimal(AnyPlainCluster());
}

RC_GTEST_PROP(PlacementTest, MixedClustersReachTheNumericOptimum, ()) {
  for (int i = 0; i < 50; ++i) CheckOptimal(AnyMixedCluster());
}

RC_GTEST_PROP(PlacementTest, NoOtherPlacementIsFaster, ()) {
  const std::vector<Host> hosts = AnyMixedCluster();
  const double best = ComputeShares(hosts)->time_per_byte;
  std::vector<double> other(hosts.size(), 0.0);
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i].servers > 0) other[i] = *rc::gen::inRange(0, 1000);
  }
  const double sum = std::accumulate(other.begin(), other.end(), 0.0);
  RC_PRE(sum > 0);
  for (double& share : other) share /= sum;
  RC_ASSERT(TimePerByte(hosts, other) >= best * (1 - 1e-9));
}

// ComputeShares chooses the optimal placement that loads no link more than necessary. All servers
// that combine run at one level. The hosts of other servers are above it by the traffic of their
// own workers alone.
RC_GTEST_PROP(PlacementTest, ServersThatCombineRunAtOneLevel, ()) {
  const std::vector<Host> hosts = AnyMixedCluster();
  uint64_t workers = 0;
  bool all_grow = true;
  for (const Host& host : hosts) workers += host.workers;
  for (const Host& host : hosts) {
    all_grow = all_grow && (host.servers == 0 || 2 * host.workers < workers);
  }
  RC_PRE(all_grow);
  const Shares shares = ComputeShares(hosts).value();
  double lowest_idle = 1e300;
  double lowest = 1e300;
  double highest = 0;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i].servers == 0) continue;
    const double width = static_cast<double>(workers) - 2.0 * hosts[i].workers;
    const double level = (hosts[i].workers + shares.host_share[i] * width) / LinkOf(hosts[i]);
    if (shares.host_share[i] == 0) {
      lowest_idle = std::min(lowest_idle, level);
    } else {
      lowest = std::min(lowest, level);
      highest = std::max(highest, level);
    }
  }
  RC_ASSERT(highest <= lowest * (1 + 1e-9));
  RC_ASSERT(highest <= lowest_idle * (1 + 1e-9));
}

RC_GTEST_PROP(PlacementTest, WeightsFollowTheShares, ()) {
  const std::vector<Host> hosts =
      *rc::gen::arbitrary<bool>() ? AnyPlainCluster() : AnyMixedCluster();
  const Shares shares = ComputeShares(hosts).value();
  for (size_t i = 0; i < hosts.size(); ++i) {
    const double parts = static_cast<double>(shares.server_weight[i]) * hosts[i].servers;
    RC_ASSERT(std::abs(parts - shares.host_share[i] * kWeightParts) <= hosts[i].servers);
  }
  RC_ASSERT(*std::max_element(shares.server_weight.begin(), shares.server_weight.end()) > 0U);
}

// --- The published forms -------------------------------------------------------------------------

std::vector<Host> EqualCluster(uint32_t workers, uint32_t helpers) {
  std::vector<Host> hosts(workers, Host{1000, 1, 1});
  hosts.resize(workers + helpers, Host{1000, 0, 1});
  return hosts;
}

TEST(PlacementTest, EqualLinksGiveThePublishedSplit) {
  for (double n = 2; n <= 64; ++n) {
    for (double k = 0; k <= n; ++k) {
      const auto hosts = EqualCluster(static_cast<uint32_t>(n), static_cast<uint32_t>(k));
      const Shares shares = ComputeShares(hosts).value();
      const double denominator = n * n + k * n - 2 * k;
      ASSERT_NEAR(shares.time_per_byte * 1000, 2 * n * (n - 1) / denominator, 1e-12)
          << n << " " << k;
      ASSERT_NEAR(shares.host_share.front(), (n - k) / denominator, 1e-12) << n << " " << k;
      const double helper = k > 0 ? 2 * (n - 1) / denominator : (n - k) / denominator;
      ASSERT_NEAR(shares.host_share.back(), helper, 1e-12) << n << " " << k;
    }
  }
}

TEST(PlacementTest, TheWeightsOfFourWorkersAndTwoHelpersToTheLastBit) {
  const Shares shares = ComputeShares(EqualCluster(4, 2)).value();
  const std::vector<uint32_t> expected = {107374182, 107374182, 107374182,
                                          107374182, 322122547, 322122547};
  EXPECT_EQ(shares.server_weight, expected);
}

TEST(PlacementTest, MoreHelpersThanWorkersShareEquallyAndWorkersCombineNothing) {
  const Shares shares = ComputeShares(EqualCluster(4, 10)).value();
  EXPECT_NEAR(shares.time_per_byte * 1000, 1.0, 1e-12);
  EXPECT_EQ(shares.server_weight[0], 0U);
  EXPECT_NEAR(shares.host_share[5], 0.1, 1e-12);
}

TEST(PlacementTest, UnequalHelpersGiveThePublishedTimes) {
  std::vector<Host> hosts = EqualCluster(4, 4);
  hosts.back().link = 500;
  EXPECT_NEAR(ComputeShares(hosts)->time_per_byte * 1000, 1.0435, 1e-4);
  hosts.back().link = 250;
  EXPECT_NEAR(ComputeShares(hosts)->time_per_byte * 1000, 1.0667, 1e-4);
  // Without a server beside the workers the slow helper's share has to go to the other helpers.
  for (size_t i = 0; i < 4; ++i) hosts[i].servers = 0;
  EXPECT_NEAR(ComputeShares(hosts)->time_per_byte * 1000, 4 / 3.25, 1e-12);
  // An equal split waits for the slow one: four times as long.
  EXPECT_NEAR(TimePerByte(hosts, std::vector<double>{0, 0, 0, 0, .25, .25, .25, .25}) * 1000, 4.0,
              1e-12);
}

TEST(PlacementTest, OneWorkerUsesTheServerBesideItAndNoNetwork) {
  const std::vector<Host> hosts = {{1000, 1, 1}, {1000, 0, 1}, {1000, 0, 1}};
  const Shares shares = ComputeShares(hosts).value();
  EXPECT_EQ(shares.time_per_byte, 0);
  EXPECT_EQ(shares.host_share, (std::vector<double>{1, 0, 0}));
}

TEST(PlacementTest, OneWorkerWithoutOneSpreadsOverAllServers) {
  const std::vector<Host> hosts = {{1000, 1, 0}, {1000, 0, 1}, {3000, 0, 1}};
  const Shares shares = ComputeShares(hosts).value();
  EXPECT_NEAR(shares.time_per_byte * 1000, 1.0, 1e-12);
  EXPECT_NEAR(shares.host_share[2], 0.75, 1e-12);
}

TEST(PlacementTest, MostWorkersOnOneHostKeepTheBytesThere) {
  // Three workers of four are on the first host: a byte that leaves it crosses its link three
  // times.
  const std::vector<Host> hosts = {{1000, 3, 1}, {1000, 1, 1}, {1000, 0, 1}, {1000, 0, 1}};
  const Shares shares = ComputeShares(hosts).value();
  EXPECT_EQ(shares.host_share[0], 1);
  EXPECT_NEAR(shares.time_per_byte * 1000, 1.0, 1e-12);
}

TEST(PlacementTest, AWorkerHostTooSlowForItsOwnTrafficCombinesNothing) {
  const std::vector<Host> hosts = {{1000, 1, 1}, {1000, 1, 1}, {1000, 1, 1}, {200, 1, 1}};
  const Shares shares = ComputeShares(hosts).value();
  EXPECT_EQ(shares.host_share[3], 0);
  EXPECT_NEAR(shares.time_per_byte * 1000, 5.0, 1e-12);
  EXPECT_NEAR(shares.host_share[0], 1.0 / 3, 1e-12);
}

TEST(PlacementTest, TwoWorkersFillTheHelpersAndKeepTheRest) {
  const std::vector<Host> hosts = {{1000, 1, 1}, {1000, 1, 1}, {500, 0, 1}};
  const Shares shares = ComputeShares(hosts).value();
  EXPECT_NEAR(shares.time_per_byte * 1000, 1.0, 1e-12);
  EXPECT_NEAR(shares.host_share[2], 0.25, 1e-12);
  EXPECT_NEAR(shares.host_share[0], 0.375, 1e-12);
}

TEST(PlacementTest, ServersOfOneHostShareItsLink) {
  const std::vector<Host> hosts = {
      {1000, 1, 0}, {1000, 1, 0}, {1000, 1, 0}, {1000, 0, 3}, {1000, 0, 1}};
  const Shares shares = ComputeShares(hosts).value();
  EXPECT_NEAR(shares.host_share[3], 0.5, 1e-12);
  EXPECT_NEAR(3.0 * shares.server_weight[3], shares.server_weight[4], 3.0);
}

TEST(PlacementTest, UnknownLinksCountAsTheMedianOfTheKnown) {
  std::vector<Host> hosts = {{1000, 1, 0}, {0, 1, 0}, {0, 0, 1}, {10, 0, 1}, {1000, 0, 1}};
  const Shares some = ComputeShares(hosts).value();
  EXPECT_EQ(some.host_share[2], some.host_share[4]);
  for (Host& host : hosts) host.link = 0;
  EXPECT_EQ(ComputeShares(hosts)->host_share[2], ComputeShares(hosts)->host_share[3]);
  EXPECT_NEAR(ComputeShares(hosts)->time_per_byte, 1.0, 1e-12);
}

TEST(PlacementTest, WithoutWorkersServersShareByLink) {
  const std::vector<Host> hosts = {{3000, 0, 1}, {1000, 0, 2}};
  const Shares shares = ComputeShares(hosts).value();
  EXPECT_EQ(shares.host_share, (std::vector<double>{0.75, 0.25}));
  EXPECT_EQ(shares.time_per_byte, 0);
}

TEST(PlacementTest, WithoutAServerThereIsNoPlacement) {
  const std::vector<Host> hosts = {{1000, 1, 0}, {1000, 1, 0}};
  const Result<Shares> result = ComputeShares(hosts);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(ComputeShares({}).ok());
}

TEST(PlacementTest, ExtremeNumbersStayNumbers) {
  const std::vector<Host> hosts = {{UINT64_MAX, UINT32_MAX, 1},
                                   {1, UINT32_MAX, UINT32_MAX},
                                   {1, UINT32_MAX, 0},
                                   {UINT64_MAX, 0, 1}};
  const Shares shares = ComputeShares(hosts).value();
  for (double share : shares.host_share) EXPECT_TRUE(share >= 0 && share <= 1);
  EXPECT_TRUE(std::isfinite(shares.time_per_byte));
}

// --- Weights of shards ---------------------------------------------------------------------------

TEST(ShardWeightsTest, AServersWeightIsSplitOverItsShards) {
  const std::vector<Host> hosts = {{1000, 1, 0}, {1000, 0, 1}, {2000, 0, 1}};
  const Shares shares = ComputeShares(hosts).value();
  const std::vector<ServerSite> sites = {{2, 4}, {1, 1}};
  const std::vector<uint32_t> weights = ShardWeights(shares, sites).value();
  ASSERT_EQ(weights.size(), 5U);
  EXPECT_NEAR(weights[0], kWeightParts * 2.0 / 3 / 4, 1.0);
  EXPECT_EQ(weights[3], weights[0]);
  EXPECT_NEAR(weights[4], kWeightParts / 3.0, 1.0);
}

TEST(ShardWeightsTest, RefusesSitesThatDoNotBelong) {
  const Shares shares = ComputeShares(std::vector<Host>{{1, 1, 1}}).value();
  EXPECT_FALSE(ShardWeights(shares, std::vector<ServerSite>{{1, 1}}).ok());
  EXPECT_FALSE(ShardWeights(shares, std::vector<ServerSite>{{0, 0}}).ok());
  EXPECT_FALSE(ShardWeights(shares, {}).ok());
}

}  // namespace
}  // namespace byteps::plan
