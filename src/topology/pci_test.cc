#include "src/topology/pci.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "src/topology/machine.h"

namespace byteps::topology {
namespace {

namespace files = std::filesystem;

constexpr const char* kRootPort = "sys/devices/pci0000:3a/0000:3a:00.0";
constexpr const char* kSwitch = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0";

// Makes a folder like the kernel's: a root port with a switch, below it two GPUs and a network
// card.
class PciTest : public ::testing::Test {
 protected:
  PciTest() : root_(files::path(::testing::TempDir()) / ("pci" + std::to_string(getpid()))) {
    AddLink(kRootPort, "16.0 GT/s PCIe", "16");
    AddLink(kSwitch, "16.0 GT/s PCIe", "16");
    const std::string below = kSwitch;
    AddDevice(below + "/0000:3c:08.0/0000:3d:00.0", "16.0 GT/s PCIe", "16", "1");
    AddDevice(below + "/0000:3c:10.0/0000:3e:00.0", "8.0 GT/s PCIe", "8", "1");
    AddDevice(below + "/0000:3c:18.0/0000:3f:00.0", "32.0 GT/s PCIe", "16", "1");
    AddInterface("eth0", below + "/0000:3c:18.0/0000:3f:00.0");
  }
  ~PciTest() override { files::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    files::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  // An idle link is slow just now.
  void AddLink(const std::string& folder, const std::string& speed, const std::string& width) {
    Write(folder + "/current_link_speed", "2.5 GT/s PCIe");
    Write(folder + "/max_link_speed", speed);
    Write(folder + "/current_link_width", width);
  }
  void AddDevice(const std::string& folder, const std::string& speed, const std::string& width,
                 const std::string& node) {
    AddLink(folder, speed, width);
    Write(folder + "/numa_node", node);
    const files::path by_address = root_ / "sys/bus/pci/devices";
    files::create_directories(by_address);
    files::create_directory_symlink(root_ / folder, by_address / files::path(folder).filename());
  }
  void AddInterface(const std::string& name, const std::string& device) {
    files::create_directories(root_ / "sys/class/net" / name);
    files::create_directory_symlink(root_ / device, root_ / "sys/class/net" / name / "device");
  }
  Machine machine() const { return Machine(root_.string()); }

  files::path root_;
};

// A rate in GB/s, rounded.
int Rate(uint64_t bytes_s) { return static_cast<int>((bytes_s + 500'000'000) / 1'000'000'000); }

TEST_F(PciTest, DevicesBelowOneRootPortShareItsLink) {
  const std::optional<PciPlace> first = machine().PlaceOf("0000:3d:00.0");
  const std::optional<PciPlace> second = machine().PlaceOf("0000:3e:00.0");
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->host_link, "0000:3a:00.0");
  EXPECT_EQ(first->host_link, second->host_link);
  EXPECT_EQ(Rate(first->host_link_bytes_s), 25) << "of the fourth generation, also while idle";
  EXPECT_EQ(Rate(first->own_bytes_s), 25);
  EXPECT_EQ(Rate(second->own_bytes_s), 6) << "8 lanes of the third generation";
  EXPECT_EQ(first->numa_node, 1);
}

TEST_F(PciTest, ALinkIsAsFastAsItsSlowerEnd) {
  Write(std::string(kRootPort) + "/max_link_speed", "8.0 GT/s PCIe");
  EXPECT_EQ(Rate(machine().PlaceOf("0000:3d:00.0")->host_link_bytes_s), 13);
  Write(std::string(kSwitch) + "/max_link_speed", "5.0 GT/s PCIe");
  EXPECT_EQ(Rate(machine().PlaceOf("0000:3d:00.0")->host_link_bytes_s), 6);
}

TEST_F(PciTest, AGpuAtARootPortHasItsLinkAlone) {
  AddLink("sys/devices/pci0000:00/0000:00:01.0", "32.0 GT/s PCIe", "16");
  AddDevice("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0", "32.0 GT/s PCIe", "16", "-1");
  const std::optional<PciPlace> place = machine().PlaceOf("00000000:01:00.0");
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->host_link, "0000:00:01.0");
  EXPECT_EQ(Rate(place->host_link_bytes_s), 50);
  EXPECT_EQ(place->own_bytes_s, place->host_link_bytes_s);
  EXPECT_EQ(place->numa_node, -1);
}

TEST_F(PciTest, AFlattenedVirtualMachineHasOneLinkForAll) {
  AddDevice("sys/devices/pci0000:00/0000:00:05.0", "16.0 GT/s PCIe", "16", "0");
  AddDevice("sys/devices/pci0000:00/0000:00:06.0", "Unknown", "63", "0");
  const std::optional<PciPlace> known = machine().PlaceOf("0000:00:05.0");
  const std::optional<PciPlace> unknown = machine().PlaceOf("0000:00:06.0");
  ASSERT_TRUE(known.has_value() && unknown.has_value());
  EXPECT_EQ(known->host_link, "pci0000:00");
  EXPECT_EQ(unknown->host_link, "pci0000:00");
  EXPECT_EQ(Rate(known->host_link_bytes_s), 25);
  EXPECT_EQ(unknown->host_link_bytes_s, 0u);
}

TEST_F(PciTest, ANetworkCardHasAPlaceToo) {
  const std::vector<PciPlace> places = machine().PlacesOf("eth0");
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].host_link, "0000:3a:00.0");
  EXPECT_TRUE(machine().PlacesOf("eth7").empty());
}

TEST_F(PciTest, WhatTheKernelHidesHasNoPlace) {
  for (const char* name : {"0000:99:00.0", "", "..", "../../net/eth0", "a/b"}) {
    EXPECT_FALSE(machine().PlaceOf(name).has_value()) << name;
  }
  Write("sys/class/net/veth0/device/other", "");
  EXPECT_TRUE(machine().PlacesOf("veth0").empty()) << "its device is not on the bus";
}

TEST(KernelPciAddress, HasFourDigitsOfDomainAndSmallLetters) {
  EXPECT_EQ(KernelPciAddress("00000000:3B:00.0"), "0000:3b:00.0");
  EXPECT_EQ(KernelPciAddress("0000:3b:00.0"), "0000:3b:00.0");
  EXPECT_EQ(KernelPciAddress("00010000:3B:00.0"), "00010000:3b:00.0");
  EXPECT_EQ(KernelPciAddress(""), "");
}

}  // namespace
}  // namespace byteps::topology
