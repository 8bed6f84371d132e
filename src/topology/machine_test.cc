#include "src/topology/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace byteps::topology {
namespace {

namespace fs = std::filesystem;

// Makes a folder like the kernel's, with two nodes of four cores and devices at both.
class MachineTest : public ::testing::Test {
 protected:
  MachineTest() : root_(fs::path(::testing::TempDir()) / ("machine" + std::to_string(getpid()))) {
    Write("sys/devices/system/node/node0/cpulist", "0-1,4-5\n");
    Write("sys/devices/system/node/node1/cpulist", "2-3,6-7\n");
    AddDevice("eth0", "25000", "0");
    AddDevice("eth1", "10000", "1");
  }
  ~MachineTest() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void AddDevice(const std::string& name, const std::string& mbit, const std::string& node) {
    Write("sys/class/net/" + name + "/speed", mbit + "\n");
    Write("sys/class/net/" + name + "/device/numa_node", node + "\n");
  }
  // Adds an interface that is made of these devices.
  void AddVirtual(const std::string& name, const std::vector<std::string>& lower) {
    Write("sys/class/net/" + name + "/speed", "99999\n");
    for (const std::string& one : lower) {
      fs::create_directory_symlink(root_ / "sys/class/net" / one,
                                   root_ / "sys/class/net" / name / ("lower_" + one));
    }
  }
  Machine machine() const { return Machine(root_.string()); }

  fs::path root_;
};

TEST_F(MachineTest, NodesHaveTheirCores) {
  std::vector<NumaNode> nodes = machine().Nodes();
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].number, 0U);
  EXPECT_EQ(nodes[0].cores, (Cores{0, 1, 4, 5}));
  EXPECT_EQ(nodes[1].cores, (Cores{2, 3, 6, 7}));
}

TEST_F(MachineTest, ANodeOfMemoryAloneIsNone) {
  Write("sys/devices/system/node/node2/cpulist", "\n");
  EXPECT_EQ(machine().Nodes().size(), 2U);
}

TEST_F(MachineTest, CoresNearADevice) {
  EXPECT_EQ(machine().CoresNear("eth0"), (Cores{0, 1, 4, 5}));
  EXPECT_EQ(machine().CoresNear("eth1"), (Cores{2, 3, 6, 7}));
}

TEST_F(MachineTest, NothingIsNearWhereTheKernelDoesNotTell) {
  AddDevice("eth2", "1000", "-1");
  AddDevice("eth3", "1000", "7");
  Write("sys/class/net/veth0/speed", "10000\n");
  for (const char* name : {"eth2", "eth3", "veth0", "none", "", "..", "a/b"}) {
    EXPECT_TRUE(machine().CoresNear(name).empty()) << name;
  }
}

TEST_F(MachineTest, OnOneNodeAllCoresAreNear) {
  fs::remove_all(root_ / "sys/devices/system/node/node1");
  EXPECT_TRUE(machine().CoresNear("eth0").empty());
}

TEST_F(MachineTest, RatesOfDevices) {
  EXPECT_EQ(machine().LinkMbit("eth0"), 25'000U);
  AddDevice("eth2", "-1", "0");
  AddDevice("eth3", "4294967295", "0");
  AddDevice("eth4", "fast", "0");
  for (const char* name : {"eth2", "eth3", "eth4", "none"}) {
    EXPECT_EQ(machine().LinkMbit(name), 0U) << name;
  }
}

TEST_F(MachineTest, AVirtualDeviceIsAsFastAsThoseItIsMadeOf) {
  AddVirtual("veth0", {});
  AddVirtual("bond0", {"eth0", "eth1"});
  AddVirtual("bond0.7", {"bond0"});
  EXPECT_EQ(machine().LinkMbit("veth0"), 0U);
  EXPECT_EQ(machine().LinkMbit("bond0"), 35'000U);
  EXPECT_EQ(machine().LinkMbit("bond0.7"), 35'000U);
  EXPECT_TRUE(machine().CoresNear("bond0").empty()) << "its devices are at two nodes";
  AddVirtual("eth1.5", {"eth1"});
  EXPECT_EQ(machine().CoresNear("eth1.5"), (Cores{2, 3, 6, 7}));
}

TEST_F(MachineTest, DevicesThatNameEachOtherEnd) {
  AddVirtual("a", {});
  AddVirtual("b", {"a"});
  fs::create_directory_symlink(root_ / "sys/class/net/b", root_ / "sys/class/net/a/lower_b");
  EXPECT_EQ(machine().LinkMbit("a"), 0U);
}

TEST_F(MachineTest, QuotasOfBothKindsOfControlGroups) {
  EXPECT_EQ(machine().CoreQuota(), 0U);
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(machine().CoreQuota(), 0U);
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(machine().CoreQuota(), 2U);
  Write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(machine().CoreQuota(), 0U);
  Write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(machine().CoreQuota(), 3U);
  Write("sys/fs/cgroup/cpu.max", "nonsense\n");
  EXPECT_EQ(machine().CoreQuota(), 0U);
}

TEST_F(MachineTest, AContainerThatHidesItsFilesHasOneUnknownMachine) {
  Machine hidden((root_ / "nothing").string());
  EXPECT_TRUE(hidden.Nodes().empty());
  EXPECT_EQ(hidden.LinkMbit("eth0"), 0U);
  EXPECT_TRUE(hidden.CoresNear("eth0").empty());
  EXPECT_GE(UsableCores(hidden), 1U);
  EXPECT_EQ(UsableCores(hidden), AllowedCores().size());
}

TEST_F(MachineTest, AQuotaLimitsTheCores) {
  Write("sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(UsableCores(machine()), 1U);
}

TEST(CoresTest, TextAndBack) {
  EXPECT_EQ(ParseCores("0-3,8,10-11"), (Cores{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(ParseCores("5,1-2,2"), (Cores{1, 2, 5}));
  EXPECT_TRUE(ParseCores("").empty());
  EXPECT_EQ(ParseCores("x,3-1,-4,7"), (Cores{7}));
  EXPECT_EQ(ParseCores("65534-4294967295"), (Cores{65534, 65535}));
  EXPECT_EQ(FormatCores({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_EQ(FormatCores({}), "");
}

TEST(RunOnTest, AThreadStaysOnTheCoresItGets) {
  const Cores all = AllowedCores();
  ASSERT_FALSE(all.empty());
  std::thread bound([&] {
    EXPECT_TRUE(RunOn({all.back()}));
    EXPECT_EQ(AllowedCores(), (Cores{all.back()}));
    // A thread cannot be bound to cores that it may not use.
    if (all.size() > 1) {
      EXPECT_FALSE(RunOn({all.front()}));
    }
    EXPECT_EQ(AllowedCores(), (Cores{all.back()}));
  });
  bound.join();
  EXPECT_EQ(AllowedCores(), all);
}

TEST(RunOnTest, NoCoreIsNoChange) {
  const Cores all = AllowedCores();
  EXPECT_FALSE(RunOn({}));
  EXPECT_FALSE(RunOn({65535}));
  EXPECT_EQ(AllowedCores(), all);
}

TEST(RunOnTest, CoresThatItMayNotUseAreLeftOut) {
  const Cores all = AllowedCores();
  std::thread bound([&] {
    Cores more = {all.front(), 65000};
    EXPECT_TRUE(RunOn(more));
    EXPECT_EQ(AllowedCores(), (Cores{all.front()}));
  });
  bound.join();
}

}  // namespace
}  // namespace byteps::topology
