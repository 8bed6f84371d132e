#include "src/session/device/device_forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "src/session/device/group_tools.h"

namespace byteps::session {
namespace {

using device::cuda::GpuReach;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A machine of two nodes, with a switch at each root port: two GPUs below each, and a network card
// below the first.
class DeviceForecastTest : public ::testing::Test {
 protected:
  DeviceForecastTest()
      : root_(std::filesystem::path(::testing::TempDir()) / ("gpus" + std::to_string(getpid()))) {
    Write("sys/devices/system/node/node0/cpulist", "0-15");
    Write("sys/devices/system/node/node1/cpulist", "16-31");
    for (const char* bus : {"10", "20"}) {
      const std::string port = std::string("sys/devices/pci0000:0f/0000:") + bus + ":00.0";
      AddLink(port, "8.0 GT/s PCIe");
      AddLink(port + "/0000:1f:00.0", "8.0 GT/s PCIe");
      for (const char* gpu : {"1", "2"})
        AddDevice(port + "/0000:1f:00.0", bus[0] + std::string(gpu));
    }
    AddDevice("sys/devices/pci0000:0f/0000:10:00.0/0000:1f:00.0", "1a");
    std::filesystem::create_directories(root_ / "sys/class/net/eth0");
    std::filesystem::create_directory_symlink(root_ / "sys/bus/pci/devices/0000:1a:00.0",
                                              root_ / "sys/class/net/eth0/device");
    for (const char* address :
         {"00000000:11:00.0", "00000000:12:00.0", "00000000:21:00.0", "00000000:22:00.0"}) {
      gpus_.gpus.push_back({.name = "GPU", .uuid = address, .address = address});
    }
    Reach(GpuReach::kPci);
    options_.num_worker = 2;
    options_.num_server = 2;
    options_.local_size = 4;
    options_.device_sums = "auto";
  }
  ~DeviceForecastTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
  }
  void AddLink(const std::string& folder, const std::string& speed) {
    Write(folder + "/max_link_speed", speed);
    Write(folder + "/current_link_width", "16");
  }
  void AddDevice(const std::string& above, const std::string& bus) {
    const std::string folder = above + "/0000:" + bus + ":00.0";
    AddLink(folder, "16.0 GT/s PCIe");
    std::filesystem::create_directories(root_ / "sys/bus/pci/devices");
    std::filesystem::create_directory_symlink(
        root_ / folder, root_ / "sys/bus/pci/devices" / std::filesystem::path(folder).filename());
  }
  void Reach(GpuReach how) { gpus_.reach.assign(gpus_.gpus.size() * gpus_.gpus.size(), how); }

  plan::DeviceMachine Look() const {
    return DeviceMachineOf(options_, topology::Machine(root_.string()), cards_, gpus_);
  }
  plan::DeviceSums Plan() const { return ForeseeDeviceSums(options_, Look()); }

  std::filesystem::path root_;
  device::cuda::MachineGpus gpus_;
  std::vector<NetworkCard> cards_ = {{"eth0", 100'000}};
  config::Options options_;
};

TEST_F(DeviceForecastTest, TheMachineIsWhatKernelAndNvmlSay) {
  const plan::DeviceMachine machine = Look();
  ASSERT_EQ(machine.ranks.size(), 4u);
  ASSERT_EQ(machine.links.size(), 2u);
  EXPECT_EQ(machine.ranks[1].link, 0u);
  EXPECT_EQ(machine.ranks[2].link, 1u);
  EXPECT_NEAR(machine.links[0].bytes_s, 12.6e9, 0.1e9);
  EXPECT_NEAR(machine.ranks[0].peer_bytes_s, 0.8 * machine.links[0].bytes_s, 1);
  EXPECT_EQ(machine.links[0].network_share, 1);
  EXPECT_EQ(machine.links[1].network_share, 0);
  EXPECT_EQ(machine.network_bytes_s, 12.5e9);
  EXPECT_EQ(machine.memory_bytes_s, 200e9);
  EXPECT_TRUE(machine.has_servers && machine.is_one_member);
}

TEST_F(DeviceForecastTest, IslandsBehindSwitchesWouldBeFaster) {
  const plan::DeviceSums sums = Plan();
  EXPECT_EQ(sums.way, plan::DeviceWay::kIslands);
  EXPECT_EQ(sums.groups.size(), 2u);
  EXPECT_THAT(plan::DescribeDeviceSums(sums), HasSubstr("3.00 bytes each way"));
}

TEST_F(DeviceForecastTest, ASlowNetworkKeepsTheWindow) {
  cards_[0].mbit = 25'000;
  EXPECT_EQ(Plan().reason, "the network is the bound");
  cards_[0].mbit = 0;
  EXPECT_THAT(Plan().reason, HasSubstr("network is unknown"));
}

TEST_F(DeviceForecastTest, OptionsTakeThePlaceOfTheMachine) {
  options_.reduce_roots = "1,2";
  plan::DeviceSums sums = Plan();
  EXPECT_THAT(sums.groups[0].weights, ElementsAre(0, 1));
  EXPECT_THAT(sums.groups[1].weights, ElementsAre(1, 0));
  options_.reduce_roots = "";
  options_.pcie_switch_size = 4;
  EXPECT_EQ(Plan().groups.size(), 1u);
  options_.device_sums = "window";
  EXPECT_EQ(Plan().reason, "as BYTEPS_DEVICE_SUMS says");
}

TEST_F(DeviceForecastTest, WhatIsNotToldIsTheWindow) {
  Reach(GpuReach::kUnknown);
  EXPECT_THAT(Plan().reason, HasSubstr("unknown whether the GPUs reach each other"));
  Reach(GpuReach::kNvlink);
  EXPECT_EQ(Plan().way, plan::DeviceWay::kNvlink);
  gpus_.gpus[2].has_parts = true;
  EXPECT_THAT(Plan().reason, HasSubstr("MIG"));
  gpus_.gpus[2].has_parts = false;
  gpus_.gpus[2].address = "00000000:99:00.0";
  EXPECT_THAT(Plan().reason, HasSubstr("link to the CPU is unknown"));
}

TEST_F(DeviceForecastTest, MoreRanksThanGpusShareThem) {
  options_.local_size = 8;
  EXPECT_THAT(Plan().reason, HasSubstr("share a GPU"));
  options_.local_size = 1;
  EXPECT_EQ(Plan().way, plan::DeviceWay::kCopies);
  options_.local_size = 4;
  options_.local_reduce = "0";
  EXPECT_EQ(Plan().reason, "each rank is a member of the job by itself");
}

TEST_F(DeviceForecastTest, AMachineWithoutServersHasNoNetwork) {
  options_.num_worker = 1;
  options_.num_server = 0;
  const plan::DeviceMachine machine = Look();
  EXPECT_FALSE(machine.has_servers);
  EXPECT_TRUE(machine.is_one_member);
  EXPECT_EQ(ForeseeDeviceSums(options_, machine).loads.network, 0);
}

// Without servers there is one machine, and its ranks say the same.
TEST_F(DeviceForecastTest, DevicesMayAddWhereAMachineMayWantIt) {
  const auto look = [] { return Result<DeviceSight>(Status(StatusCode::kUnavailable, "none")); };
  options_.device_sums = "window";
  EXPECT_TRUE(DevicesMayAdd(options_)) << "another machine has options of its own";
  EXPECT_EQ(GroupToolsOf(options_, look).find, nullptr);
  options_.num_worker = 1;
  options_.num_server = 0;
  EXPECT_FALSE(DevicesMayAdd(options_));
  for (const char* wish : {"auto", "nccl"}) {
    options_.device_sums = wish;
    options_.same_bits = "0";
    EXPECT_TRUE(DevicesMayAdd(options_));
    EXPECT_NE(GroupToolsOf(options_, look).find, nullptr);
    options_.same_bits = "1";
    EXPECT_FALSE(DevicesMayAdd(options_));
    EXPECT_EQ(GroupToolsOf(options_, look).find, nullptr);
  }
}

}  // namespace
}  // namespace byteps::session
