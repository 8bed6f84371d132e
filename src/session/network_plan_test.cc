#include "src/session/network_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace byteps::session {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A host with two nodes, and a device of 25 Gbit/s at each.
class NetworkPlanTest : public ::testing::Test {
 protected:
  NetworkPlanTest() : root_(fs::path(::testing::TempDir()) / ("plan" + std::to_string(getpid()))) {
    for (const char* node : {"0", "1"}) {
      const std::string device = std::string("sys/class/net/eth") + node;
      Write(device + "/speed", "25000");
      Write(device + "/device/numa_node", node);
    }
    Write("sys/devices/system/node/node0/cpulist", "0-15");
    Write("sys/devices/system/node/node1/cpulist", "16-31");
    host_.machine = topology::Machine(root_.string());
    host_.addresses = {{"lo", "127.0.0.1", true, 8},        {"eth0", "fd00::5", false, 64},
                       {"eth0", "10.1.0.5", false, 16},     {"eth1", "10.2.0.5", false, 16},
                       {"eth1", "fe80::1%eth1", false, 64}, {"veth0", "10.3.0.5", false, 24}};
    host_.route = "10.1.0.5";
    host_.cores = 32;
    options_.num_worker = 4;
    options_.num_server = 4;
  }
  ~NetworkPlanTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
  }
  NetworkPlan Plan() {
    Result<NetworkPlan> made = PlanNetwork(options_, host_);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return made.ok() ? made.value() : NetworkPlan();
  }
  void BeServer() { options_.role = Role::kServer; }

  fs::path root_;
  HostNetwork host_;
  config::Options options_;
};

TEST_F(NetworkPlanTest, TheDeviceOnTheRouteDecides) {
  NetworkPlan made = Plan();
  EXPECT_EQ(made.threads, 3U);
  EXPECT_FALSE(made.named);
  EXPECT_EQ(made.text,
            "lanes: 3, the link has 25000 Mbit/s, and a thread carries 10000; eth0 (25000 Mbit/s) "
            "near cores 0-15");
  BeServer();
  EXPECT_THAT(Plan().text, HasSubstr("shards: 3"));
}

TEST_F(NetworkPlanTest, WhatTheUserSaysOfTheRateCounts) {
  options_.link_mbit = 40'000;
  EXPECT_EQ(Plan().threads, 4U);
  options_.link_mbit = 1'000;
  EXPECT_EQ(Plan().threads, 1U);
}

TEST_F(NetworkPlanTest, AnUnknownRateIsOneLane) {
  for (const char* route : {"10.3.0.5", "127.0.0.1", "10.9.9.9", ""}) {
    host_.route = route;
    EXPECT_EQ(Plan().threads, 1U) << route;
    EXPECT_THAT(Plan().text, HasSubstr("nobody has said how fast")) << route;
  }
}

TEST_F(NetworkPlanTest, TheWorkersOfAMachineShareItsCores) {
  options_.local_size = 4;
  options_.local_reduce = "0";
  EXPECT_EQ(Plan().threads, 2U) << "each has a quarter";
  options_.local_reduce = "auto";
  EXPECT_EQ(Plan().threads, 3U) << "one has the lanes of all";
}

TEST_F(NetworkPlanTest, WhatTheUserSaysOfLanesAndShardsCounts) {
  options_.lanes = 7;
  options_.server_shards = 5;
  EXPECT_EQ(Plan().threads, 7U);
  EXPECT_THAT(Plan().text, HasSubstr("lanes: 7, as BYTEPS_LANES says"));
  BeServer();
  EXPECT_THAT(Plan().text, HasSubstr("shards: 5, as BYTEPS_SERVER_SHARDS says"));
}

TEST_F(NetworkPlanTest, EachInterfaceHasLanesOfItsOwn) {
  options_.interfaces = "eth0,eth1";
  NetworkPlan made = Plan();
  EXPECT_TRUE(made.named);
  EXPECT_EQ(made.threads, 6U);
  ASSERT_EQ(made.links.size(), 2U);
  EXPECT_THAT(made.links[0].addresses,
              ElementsAre(runtime::OwnAddress{"fd00::5", 64}, runtime::OwnAddress{"10.1.0.5", 16}));
  EXPECT_THAT(made.links[1].addresses, ElementsAre(runtime::OwnAddress{"10.2.0.5", 16}));
  EXPECT_EQ(made.links[1].cores.front(), 16U);
  EXPECT_EQ(made.warning, "");
  options_.lanes = 1;
  EXPECT_THAT(Plan().warning, HasSubstr("2 interfaces (BYTEPS_INTERFACES) share 1 lanes"));
}

TEST_F(NetworkPlanTest, AServerAnnouncesAnAddressOfEachInterface) {
  EXPECT_TRUE(AnnouncedBy(Plan(), host_.route).empty());
  options_.interfaces = "eth1,eth0";
  EXPECT_THAT(AnnouncedBy(Plan(), ""), ElementsAre("10.2.0.5", "10.1.0.5"));
  EXPECT_THAT(AnnouncedBy(Plan(), "fd00::5"), ElementsAre("10.2.0.5", "fd00::5"));
}

TEST_F(NetworkPlanTest, AnInterfaceWithoutAnAddressIsNamed) {
  for (const char* wrong : {"eth7", "et"}) {
    options_.interfaces = std::string("eth0,") + wrong;
    Result<NetworkPlan> made = PlanNetwork(options_, host_);
    ASSERT_EQ(made.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(made.status().message(), HasSubstr("BYTEPS_INTERFACES"));
    EXPECT_THAT(made.status().message(), HasSubstr(std::string("'") + wrong + "'"));
    EXPECT_THAT(made.status().message(), HasSubstr("eth1 10.2.0.5"));
  }
}

TEST_F(NetworkPlanTest, OnlyAddressesInTheNetworkCount) {
  options_.interfaces = "eth0";
  options_.address_cidr = "10.0.0.0/8";
  EXPECT_THAT(Plan().links[0].addresses, ElementsAre(runtime::OwnAddress{"10.1.0.5", 16}));
  options_.address_cidr = "10.2.0.0/16";
  EXPECT_THAT(PlanNetwork(options_, host_).status().message(), HasSubstr("10.2.0.0/16"));
}

TEST_F(NetworkPlanTest, TheLinksOfAHostCountTogether) {
  EXPECT_EQ(DeclaredMbit(options_), 0U);
  options_.link_mbit = 1'000;
  EXPECT_EQ(DeclaredMbit(options_), 1'000U);
  options_.interfaces = "eth0,eth1";
  EXPECT_EQ(DeclaredMbit(options_), 2'000U);
  options_.link_mbit = UINT32_MAX;
  EXPECT_EQ(DeclaredMbit(options_), UINT32_MAX);
}

TEST_F(NetworkPlanTest, NothingIsBoundWhereNothingIsNear) {
  EXPECT_NE(BinderOf(Plan()), nullptr);
  options_.numa = false;
  EXPECT_EQ(BinderOf(Plan()), nullptr);
  options_.numa = true;
  host_.route = "10.3.0.5";
  EXPECT_EQ(BinderOf(Plan()), nullptr);
}

TEST_F(NetworkPlanTest, EachThreadRunsNearItsOwnInterface) {
  const topology::Cores all = topology::AllowedCores();
  Write("sys/devices/system/node/node0/cpulist", std::to_string(all.front()));
  Write("sys/devices/system/node/node1/cpulist", std::to_string(all.back()));
  options_.interfaces = "eth0,eth1";
  const auto bind = BinderOf(Plan());
  ASSERT_NE(bind, nullptr);
  for (uint32_t thread = 0; thread < 4; ++thread) {
    std::thread bound([&] {
      bind(thread);
      const uint32_t own = thread % 2 == 0 ? all.front() : all.back();
      EXPECT_THAT(topology::AllowedCores(), ElementsAre(own));
    });
    bound.join();
  }
}

TEST(LookAroundTest, ThisHostHasAnswers) {
  config::Options options;
  options.root_host = "127.0.0.1";
  options.root_port = 1;
  HostNetwork host = LookAround(options);
  EXPECT_EQ(host.route, "127.0.0.1");
  EXPECT_GE(host.cores, 1U);
  EXPECT_FALSE(host.addresses.empty());
}

}  // namespace
}  // namespace byteps::session
