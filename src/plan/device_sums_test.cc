#include "src/plan/device_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "src/plan/device_machines_for_test.h"

namespace byteps::plan {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kExact = 1e-9;

DeviceSums PlanOf(const DeviceMachine& machine, const DeviceSumsWishes& wishes = {}) {
  return PlanDeviceSums(machine, wishes);
}

std::vector<std::vector<uint32_t>> RanksOf(const DeviceSums& sums) {
  std::vector<std::vector<uint32_t>> ranks;
  for (const DeviceGroup& group : sums.groups) ranks.push_back(group.ranks);
  return ranks;
}

// Checks what holds for every machine: each rank is in one group, each piece has one home in each
// group that has homes, and no link to the CPU, nor the memory, nor the time is above the window's.
void CheckSums(const DeviceMachine& machine, const DeviceSums& sums) {
  std::vector<uint32_t> ranks;
  for (const DeviceGroup& group : sums.groups) {
    ranks.insert(ranks.end(), group.ranks.begin(), group.ranks.end());
    if (group.weights.empty()) continue;
    ASSERT_EQ(group.weights.size(), group.ranks.size());
    EXPECT_NEAR(std::accumulate(group.weights.begin(), group.weights.end(), 0.0), 1, kExact);
    for (uint32_t pieces : {0U, 1U, 7U, 128U}) {
      uint32_t next = 0;
      for (const PieceRun& run : DealPieces(pieces, group.weights)) {
        EXPECT_EQ(run.first, next);
        next += run.count;
      }
      EXPECT_EQ(next, pieces);
    }
  }
  std::ranges::sort(ranks);
  for (uint32_t rank = 0; rank < machine.ranks.size(); ++rank) EXPECT_EQ(ranks.at(rank), rank);
  EXPECT_EQ(ranks.size(), machine.ranks.size());
  for (size_t i = 0; i < sums.loads.links.size(); ++i) {
    EXPECT_LE(sums.loads.links[i], sums.window.links[i] + kExact);
  }
  EXPECT_LE(sums.loads.memory, sums.window.memory);
  EXPECT_LE(sums.loads.seconds, sums.window.seconds);
  EXPECT_FALSE(sums.reason.empty());
}

// The table of docs/gpu.md: times over the network's own bound, for 10, 25, 100 and 200 Gbit/s.
struct Row {
  std::string name;
  DeviceMachine (*machine)(double network_gbit);
  DeviceWay groups;  // the way that is taken where the window is too slow
  std::vector<double> window;
  std::vector<double> taken;
};
const std::vector<double> kNetworks = {10, 25, 100, 200};

class DeviceTable : public ::testing::TestWithParam<Row> {};

TEST_P(DeviceTable, HasTheForecastsOfTheDesign) {
  const Row& row = GetParam();
  for (size_t i = 0; i < kNetworks.size(); ++i) {
    const DeviceMachine machine = row.machine(kNetworks[i]);
    const DeviceSums sums = PlanOf(machine);
    CheckSums(machine, sums);
    EXPECT_NEAR(sums.window.of_network, row.window[i], 0.0051) << kNetworks[i];
    EXPECT_NEAR(sums.loads.of_network, row.taken[i], 0.0051) << kNetworks[i];
    const DeviceWay way = row.window[i] <= 1.05 ? DeviceWay::kWindow : row.groups;
    EXPECT_EQ(sums.way, way) << kNetworks[i] << ": " << sums.reason;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Machines, DeviceTable,
    ::testing::Values(
        Row{"RootPorts", RootPorts, DeviceWay::kWindow, {1, 1, 1.19, 2.38}, {1, 1, 1.19, 2.38}},
        Row{"FourSwitches",
            FourSwitches,
            DeviceWay::kIslands,
            {1, 1, 3.13, 6.25},
            {1, 1, 2.08, 4.17}},
        Row{"TwoSwitches", TwoSwitches, DeviceWay::kIslands, {1, 1, 2.5, 5}, {1, 1, 1.09, 2.19}},
        Row{"V100Mesh", V100Mesh, DeviceWay::kNvlink, {1, 1, 3.13, 6.25}, {1, 1, 1.04, 2.08}},
        Row{"EightCards", EightCards, DeviceWay::kNvlink, {1, 1, 1.94, 3.88}, {1, 1, 1, 1.25}}),
    [](const auto& one) { return one.param.name; });

TEST(DeviceSums, TheWindowHasItsClosedForm) {
  for (DeviceMachine machine : {FourSwitches(100), TwoSwitches(100), EightCards(100)}) {
    const double gpus = static_cast<double>(machine.ranks.size());
    const double each = gpus / static_cast<double>(machine.links.size());
    DeviceSums sums = PlanOf(machine, {.way = DeviceSumsWish::kWindow, .roots = {}});
    for (size_t i = 0; i < machine.links.size(); ++i) {
      EXPECT_NEAR(sums.loads.links[i], each + machine.links[i].network_share, kExact);
    }
    EXPECT_THAT(sums.loads.devices, Each(1.0));
    EXPECT_EQ(sums.loads.memory, 3 * gpus + 7);
    machine.has_servers = false;
    sums = PlanOf(machine, {.way = DeviceSumsWish::kWindow, .roots = {}});
    EXPECT_THAT(sums.loads.links, Each(each));
    EXPECT_EQ(sums.loads.memory, 3 * gpus + 1);
    EXPECT_EQ(sums.loads.network, 0);
  }
}

TEST(DeviceSums, IslandsHaveTheirClosedForm) {
  for (const DeviceMachine& machine : {FourSwitches(100), TwoSwitches(100)}) {
    const double islands = static_cast<double>(machine.links.size());
    const double each = static_cast<double>(machine.ranks.size()) / islands;
    const DeviceSums sums = PlanOf(machine);
    ASSERT_EQ(sums.way, DeviceWay::kIslands);
    for (size_t i = 0; i < machine.links.size(); ++i) {
      EXPECT_NEAR(sums.loads.links[i], 1 + machine.links[i].network_share, kExact);
    }
    EXPECT_THAT(sums.loads.devices, Each(DoubleNear((2 * each - 1) / each, kExact)));
    EXPECT_EQ(sums.loads.memory, 3 * islands + 7);
  }
}

TEST(DeviceSums, TheSwitchOfTheCardGetsNothingWhereOthersSuffice) {
  const DeviceSums sums = PlanOf(V100Mesh(100));
  ASSERT_EQ(sums.way, DeviceWay::kNvlink);
  EXPECT_THAT(sums.loads.links,
              ElementsAre(1.0, DoubleNear(1.0 / 3, kExact), DoubleNear(1.0 / 3, kExact),
                          DoubleNear(1.0 / 3, kExact)));
  std::vector<double> weights = sums.groups[0].weights;
  EXPECT_THAT(std::vector(weights.begin(), weights.begin() + 2), Each(0.0));
  EXPECT_THAT(std::vector(weights.begin() + 2, weights.end()), Each(DoubleNear(1.0 / 6, kExact)));
  EXPECT_EQ(sums.loads.memory, 10);
}

TEST(DeviceSums, WithoutServersAllOfNvlinkIsSummedThere) {
  DeviceMachine machine = V100Mesh(0);
  machine.has_servers = false;
  const DeviceSums sums = PlanOf(machine);
  CheckSums(machine, sums);
  EXPECT_EQ(sums.way, DeviceWay::kNvlink);
  EXPECT_THAT(sums.loads.links, Each(0.0));
  EXPECT_EQ(sums.loads.memory, 0);
  EXPECT_EQ(sums.loads.bound, DeviceBound::kNvlink);
}

TEST(DeviceSums, WithoutServersSwitchesHelpToo) {
  DeviceMachine machine = TwoSwitches(0);
  machine.has_servers = false;
  const DeviceSums sums = PlanOf(machine);
  CheckSums(machine, sums);
  EXPECT_EQ(sums.way, DeviceWay::kIslands);
  EXPECT_THAT(sums.loads.links, Each(DoubleNear(1, kExact)));
  EXPECT_EQ(sums.loads.memory, 7);
}

// A ring over the bridge takes less than copies to the host, and nothing of its memory.
TEST(DeviceSums, WithoutServersAllBehindOneLinkAreOneGroupWithoutHomes) {
  DeviceMachine machine = FlattenedVm(0);
  machine.has_servers = false;
  const DeviceSums sums = PlanOf(machine);
  CheckSums(machine, sums);
  EXPECT_EQ(sums.way, DeviceWay::kIslands);
  ASSERT_EQ(sums.groups.size(), 1u);
  EXPECT_TRUE(sums.groups[0].weights.empty());
  EXPECT_THAT(sums.loads.devices, Each(DoubleNear(2.0 * 3 / 4, kExact)));
  EXPECT_THAT(sums.loads.links, Each(0.0));
  EXPECT_EQ(sums.loads.memory, 0);
  EXPECT_EQ(sums.loads.bound, DeviceBound::kPeers);
}

// Expects the window, for this reason.
void ExpectWindow(const DeviceMachine& machine, const std::string& reason,
                  const DeviceSumsWishes& wishes = {}) {
  const DeviceSums sums = PlanOf(machine, wishes);
  CheckSums(machine, sums);
  EXPECT_EQ(sums.way, DeviceWay::kWindow) << reason;
  EXPECT_THAT(sums.reason, HasSubstr(reason));
}

TEST(DeviceSums, AFlattenedVirtualMachineTakesTheSafeSide) {
  DeviceMachine machine = FlattenedVm(100);
  ConnectAll(PeerAccess::kNone, machine);
  ExpectWindow(machine, "may not reach each other");
  EXPECT_NEAR(PlanOf(machine).loads.links[0], 4 + 1, kExact) << "all GPUs share one link";
  ConnectAll(PeerAccess::kUnknown, machine);
  ExpectWindow(machine, "unknown whether the GPUs reach each other");
}

TEST(DeviceSums, WhatIsUnknownOrSharedIsTheWindow) {
  DeviceMachine parts = V100Mesh(100);
  parts.ranks[3].is_part = true;
  ExpectWindow(parts, "MIG");
  DeviceMachine twice = V100Mesh(100);
  twice.ranks[5].device = twice.ranks[0].device;
  ExpectWindow(twice, "share a GPU");
  DeviceMachine unnamed = V100Mesh(100);
  unnamed.ranks[7].device.clear();
  ExpectWindow(unnamed, "unknown which GPU");
  DeviceMachine slow = V100Mesh(100);
  slow.links[2].bytes_s = 0;
  ExpectWindow(slow, "link to the CPU is unknown");
  DeviceMachine memory = V100Mesh(100);
  memory.memory_bytes_s = 0;
  ExpectWindow(memory, "memory is unknown");
  ExpectWindow(V100Mesh(0), "network is unknown");
  DeviceMachine without = V100Mesh(100);
  without.why_no_nccl = "rank 2 has another version of NCCL";
  ExpectWindow(without, "another version of NCCL");
}

TEST(DeviceSums, IslandsAreEquallyLargeAndOfNeighbours) {
  DeviceMachine unequal = MachineOf(6, 2, kGen3, 100);
  unequal.ranks[3].link = 0;
  for (uint32_t rank : {0U, 1U, 2U}) unequal.peers[3 * 6 + rank] = PeerAccess::kPci;
  ExpectWindow(unequal, "GPUs behind one link to the CPU may not reach each other");
  for (uint32_t rank : {0U, 1U, 2U}) unequal.peers[rank * 6 + 3] = PeerAccess::kPci;
  ExpectWindow(unequal, "no equally large groups");
  DeviceMachine in_turn = MachineOf(4, 2, kGen3, 100);
  for (uint32_t rank = 0; rank < 4; ++rank) in_turn.ranks[rank].link = rank % 2;
  ConnectAll(PeerAccess::kPci, in_turn);
  ExpectWindow(in_turn, "no equally large groups of neighbouring ranks");
}

TEST(DeviceSums, PairsOfNvlinkAreIslandsAndTheFasterIslandsAreTaken) {
  DeviceMachine pairs = FourSwitches(100);
  for (DeviceRank& rank : pairs.ranks) rank.link /= 2;
  pairs.links.resize(2);
  for (uint32_t rank = 0; rank < 8; ++rank)
    pairs.peers[rank * 8 + (rank ^ 1)] = PeerAccess::kNvlink;
  EXPECT_EQ(RanksOf(PlanOf(pairs)),
            (std::vector<std::vector<uint32_t>>{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  for (uint32_t rank = 0; rank < 8; ++rank) {
    for (uint32_t other = 0; other < 8; ++other) {
      PeerAccess& there = pairs.peers[rank * 8 + other];
      if (pairs.ranks[rank].link == pairs.ranks[other].link && there != PeerAccess::kNvlink) {
        there = PeerAccess::kPci;
      }
    }
  }
  EXPECT_EQ(RanksOf(PlanOf(pairs)),
            (std::vector<std::vector<uint32_t>>{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

TEST(DeviceSums, GroupsThatAreNotFasterAreNotTaken) {
  DeviceMachine machine = FourSwitches(100);
  for (DeviceRank& rank : machine.ranks) rank.peer_bytes_s = kGigabyte;
  ExpectWindow(machine, "would not be faster");
  EXPECT_EQ(PlanOf(machine, {.way = DeviceSumsWish::kNccl, .roots = {}}).way, DeviceWay::kIslands);
}

TEST(DeviceSums, ARankThatIsAMemberByItselfCopiesForItself) {
  DeviceMachine apart = TwoSwitches(100);
  apart.is_one_member = false;
  DeviceSums sums = PlanOf(apart);
  EXPECT_EQ(sums.way, DeviceWay::kCopies);
  EXPECT_EQ(sums.loads.network, 8) << "each rank has its own bytes on the network";
  sums = PlanOf(MachineOf(1, 1, kGen3, 100));
  EXPECT_EQ(sums.way, DeviceWay::kCopies);
  EXPECT_THAT(sums.loads.links, ElementsAre(2.0));
}

TEST(DeviceSums, WhatTheUserSetsWins) {
  ExpectWindow(V100Mesh(100), "BYTEPS_DEVICE_SUMS", {.way = DeviceSumsWish::kWindow, .roots = {}});
  EXPECT_EQ(PlanOf(V100Mesh(10), {.way = DeviceSumsWish::kNccl, .roots = {}}).way,
            DeviceWay::kNvlink);

  DeviceMachine flattened = FlattenedVm(100);
  const DeviceSums found = PlanOf(flattened);
  EXPECT_EQ(RanksOf(found), (std::vector<std::vector<uint32_t>>{{0, 1, 2, 3}}));
  const DeviceSums told = PlanOf(flattened, {.switch_size = 2, .roots = {}});
  EXPECT_EQ(RanksOf(told), (std::vector<std::vector<uint32_t>>{{0, 1}, {2, 3}}));
  EXPECT_THAT(told.loads.links, ElementsAre(2.0, 1.0));

  const DeviceSums rooted = PlanOf(TwoSwitches(100), {.roots = {1, 2, 7}});
  EXPECT_THAT(rooted.groups[0].weights, ElementsAre(0, 0.5, 0.5, 0));
  EXPECT_THAT(rooted.groups[1].weights, ElementsAre(0, 0, 0, 1));
  EXPECT_EQ(rooted.loads.devices[7], 2) << "of a piece past its home, in and out";
  ExpectWindow(TwoSwitches(100), "BYTEPS_REDUCE_ROOTS", {.roots = {1}});
  ExpectWindow(V100Mesh(100), "BYTEPS_REDUCE_ROOTS", {.roots = {8}});
  EXPECT_THAT(PlanOf(V100Mesh(100), {.roots = {0, 2}}).groups[0].weights,
              ElementsAre(0, 0, 1, 0, 0, 0, 0, 0));
}

// Deals by bisection over the level of the links.
double LevelByBisection(const std::vector<HostLink>& links) {
  double low = 0, high = 0;
  for (const HostLink& link : links) high = std::max(high, (1 + link.network_share) / link.bytes_s);
  for (int i = 0; i < 200; ++i) {
    const double level = (low + high) / 2;
    double dealt = 0;
    for (const HostLink& link : links) {
      dealt += std::max(0.0, level * link.bytes_s - link.network_share);
    }
    (dealt < 1 ? low : high) = level;
  }
  return high;
}

RC_GTEST_PROP(DeviceSumsProperty, TheDealMakesTheBusiestLinkLeastBusy, ()) {
  std::vector<HostLink> links(*rc::gen::inRange<size_t>(1, 9));
  for (HostLink& link : links) {
    link.bytes_s = *rc::gen::inRange(1, 1000);
    link.network_share = *rc::gen::inRange(0, 1000) / 500.0;
  }
  const std::vector<double> dealt = DealAmongLinks(links);
  double sum = 0, busiest = 0;
  for (size_t i = 0; i < links.size(); ++i) {
    RC_ASSERT(dealt[i] >= 0);
    sum += dealt[i];
    if (dealt[i] > 0) {
      busiest = std::max(busiest, (dealt[i] + links[i].network_share) / links[i].bytes_s);
    }
  }
  RC_ASSERT(std::abs(sum - 1) < kExact);
  RC_ASSERT(std::abs(busiest / LevelByBisection(links) - 1) < kExact);
}

RC_GTEST_PROP(DeviceSumsProperty, PiecesAreDealtOnceAndByWeight, ()) {
  const auto pieces = *rc::gen::inRange<uint32_t>(0, 100'000);
  std::vector<double> weights(*rc::gen::inRange<size_t>(1, 17));
  for (double& weight : weights) weight = *rc::gen::inRange(0, 1000);
  weights[*rc::gen::inRange<size_t>(0, weights.size())] += 1;
  const double whole = std::accumulate(weights.begin(), weights.end(), 0.0);
  const std::vector<PieceRun> runs = DealPieces(pieces, weights);
  RC_ASSERT(runs.size() == weights.size());
  uint32_t next = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    RC_ASSERT(runs[i].first == next);
    next += runs[i].count;
    RC_ASSERT(std::abs(runs[i].count - weights[i] / whole * pieces) < 1 + kExact);
    RC_ASSERT(weights[i] > 0 || runs[i].count == 0);
  }
  RC_ASSERT(next == pieces);
}

DeviceMachine AnyMachine() {
  DeviceMachine machine;
  const auto ranks = *rc::gen::inRange<uint32_t>(1, 17);
  machine.links.resize(*rc::gen::inRange<size_t>(1, 6));
  for (HostLink& link : machine.links) {
    link.bytes_s = (*rc::gen::inRange(0, 30) == 0 ? 0 : *rc::gen::inRange(1, 20)) * kGigabyte;
    link.network_share = *rc::gen::inRange(0, 5) / 4.0;
  }
  const auto in_order = *rc::gen::arbitrary<bool>();
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const auto count = static_cast<uint32_t>(machine.links.size());
    const uint32_t link = in_order ? rank * count / ranks : *rc::gen::inRange(0U, count);
    machine.ranks.push_back({"gpu " + std::to_string(rank), *rc::gen::inRange(0, 400) == 0, link,
                             *rc::gen::inRange(5, 40) * kGigabyte});
  }
  const auto odd = *rc::gen::inRange(0, 3);
  const auto usual = *rc::gen::element(PeerAccess::kPci, PeerAccess::kPci, PeerAccess::kNvlink);
  for (uint32_t i = 0; i < ranks * ranks; ++i) {
    const auto other = *rc::gen::element(PeerAccess::kUnknown, PeerAccess::kNone, PeerAccess::kPci,
                                         PeerAccess::kNvlink);
    machine.peers.push_back(odd == 0 && *rc::gen::inRange(0, 40) == 0 ? other : usual);
  }
  machine.memory_bytes_s = *rc::gen::inRange(1, 400) * kGigabyte;
  machine.network_bytes_s = *rc::gen::inRange(0, 100) * kGigabyte;
  machine.has_servers = *rc::gen::arbitrary<bool>();
  return machine;
}

RC_GTEST_PROP(DeviceSumsProperty, NoPlanIsWorseThanTheWindow, ()) {
  const DeviceMachine machine = AnyMachine();
  DeviceSumsWishes wishes;
  wishes.switch_size = *rc::gen::element(0U, 0U, 2U, 4U, 8U);
  if (*rc::gen::inRange(0, 4) == 0)
    wishes.roots = *rc::gen::container<std::vector<uint32_t>>(rc::gen::inRange(0U, 17U));
  const DeviceSums sums = PlanDeviceSums(machine, wishes);
  CheckSums(machine, sums);
  RC_ASSERT(!::testing::Test::HasFailure());
  RC_TAG(static_cast<int>(sums.way));
  for (const DeviceGroup& group : sums.groups) {
    for (size_t i = 1; i < group.ranks.size(); ++i) {
      RC_ASSERT(group.ranks[i] == group.ranks[i - 1] + 1);
    }
    RC_ASSERT(group.ranks.size() == sums.groups[0].ranks.size());
  }
}

TEST(DescribeDeviceSums, SaysTheWayOfTheJobAndTheForecast) {
  EXPECT_EQ(DescribeDeviceSums(PlanOf(FourSwitches(25))),
            "the ranks of a machine sum in the window: the network is the bound. Forecast for each "
            "byte of a tensor, not measured: 3.00 bytes each way over the busiest link to the CPU, "
            "31.00 of the host's memory, 1.00 times the network's time");
  EXPECT_EQ(
      DescribeDeviceSums(PlanOf(FourSwitches(100))),
      "sums go through NCCL in groups of GPUs (copies, not the network, are the bound). "
      "Forecast for each byte of a tensor, not measured: 2.00 bytes each way over the busiest "
      "link to the CPU, 19.00 of the host's memory, 2.08 times the network's time; in the "
      "window 3.00 bytes each way over the busiest link to the CPU, 31.00 of the host's "
      "memory, 3.13 times the network's time");
  DeviceMachine alone = V100Mesh(0);
  alone.has_servers = false;
  EXPECT_THAT(DescribeDeviceSums(PlanOf(alone)),
              AllOf(HasSubstr("sums go through NCCL over NVLink among all GPUs (it is faster)"),
                    HasSubstr(": 0.00 bytes each way")));
  EXPECT_THAT(DescribeDeviceSums(PlanOf(MachineOf(1, 1, kGen3, 100))),
              HasSubstr("each rank copies for itself: this is the only rank"));
}

// A user who asks for NCCL has looked at the machine.
TEST(DeviceSums, WhoAsksForNcclNeedsNoRates) {
  DeviceMachine machine = V100Mesh(0);
  for (HostLink& link : machine.links) link.bytes_s = 0;
  for (DeviceRank& rank : machine.ranks) rank.peer_bytes_s = 0;
  machine.memory_bytes_s = 0;
  const DeviceSums sums = PlanOf(machine, {.way = DeviceSumsWish::kNccl, .roots = {}});
  EXPECT_EQ(sums.way, DeviceWay::kNvlink);
  EXPECT_THAT(sums.reason, HasSubstr("count as equal"));
  ASSERT_EQ(sums.groups.size(), 1u);
  ConnectAll(PeerAccess::kUnknown, machine);
  EXPECT_EQ(PlanOf(machine, {.way = DeviceSumsWish::kNccl, .roots = {}}).way, DeviceWay::kWindow);
}

}  // namespace
}  // namespace byteps::plan
