#include "src/transport/rdma/devices.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

namespace byteps::transport {
namespace {

Gid GidFor(const std::string& address) { return GidOfAddress(address).value(); }

// A port as RoCE has it: for each address an entry of v1 and one of v2, behind a link-local one.
PortFacts RocePort(const std::vector<std::string>& addresses) {
  PortFacts port;
  port.gids.push_back({0, GidFor("fe80::1"), true});
  for (const std::string& address : addresses) {
    auto index = static_cast<uint32_t>(port.gids.size());
    port.gids.push_back({index, GidFor(address), false});
    port.gids.push_back({index + 1, GidFor(address), true});
  }
  return port;
}

PortFacts InfiniBandPort(uint8_t number, const std::string& interface) {
  PortFacts port;
  port.number = number;
  port.link = LinkLayer::kInfiniBand;
  port.gids.push_back({0, GidFor("fe80::2"), false});
  port.interfaces = {interface};
  return port;
}

std::vector<DeviceFacts> Some() {
  return {{"mlx5_0", true, {RocePort({"10.0.0.1", "10.0.0.2"})}},
          {"mlx5_1", true, {RocePort({"10.1.0.1", "fd00::1"})}},
          {"rxe0", false, {RocePort({"10.2.0.1"})}}};
}

DeviceWish For(const std::string& address, const std::vector<std::string>& named = {}) {
  DeviceWish wish;
  wish.address = address;
  wish.named = named;
  return wish;
}

void ExpectNone(const std::vector<DeviceFacts>& devices, const DeviceWish& wish,
                const std::string& part) {
  auto choice = ChooseDevice(devices, wish);
  ASSERT_EQ(choice.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(choice.status().message().find(part), std::string::npos) << choice.status().message();
}

TEST(ChooseDeviceTest, TheAddressDecides) {
  auto second = ChooseDevice(Some(), For("10.0.0.2"));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->device, "mlx5_0");
  EXPECT_EQ(second->gid_index, 4u) << "the entry of RoCE v2";
  EXPECT_EQ(second->gid, GidFor("10.0.0.2"));
  auto v6 = ChooseDevice(Some(), For("fd00::1"));
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->device, "mlx5_1");
}

TEST(ChooseDeviceTest, SoftwareServesOnlyIfItIsWanted) {
  ExpectNone(Some(), For("10.2.0.1"), "no RDMA device has the address 10.2.0.1");
  ExpectNone({Some()[2]}, For("10.2.0.1"), "rxe0 is RDMA in software");
  EXPECT_EQ(ChooseDevice(Some(), For("10.2.0.1", {"rxe0"}))->device, "rxe0");
  DeviceWish any = For("10.2.0.1");
  any.takes_software = true;
  EXPECT_EQ(ChooseDevice(Some(), any)->device, "rxe0");
}

TEST(ChooseDeviceTest, ADeviceThatIsNotNamedDoesNotServe) {
  ExpectNone(Some(), For("10.0.0.1", {"mlx5_1"}), "mlx5_1:1");
  ExpectNone(Some(), For("10.0.0.1", {"mlx5_7"}), "has no RDMA device mlx5_7; it has mlx5_0");
  EXPECT_EQ(ChooseDevice(Some(), For("10.0.0.1", {"mlx5_7", "mlx5_0:1"}))->port, 1);
  ExpectNone(Some(), For("10.0.0.1", {"mlx5_0:2"}), "has no RDMA device mlx5_0:2");
}

TEST(ChooseDeviceTest, EachReasonHasItsWords) {
  ExpectNone({}, For("10.0.0.1"), "/dev/infiniband");
  auto down = Some();
  down[0].ports[0].is_active = false;
  ExpectNone(down, For("10.0.0.1"), "mlx5_0:1 is not active");
  EXPECT_EQ(ChooseDevice(Some(), For("a.host")).status().code(), StatusCode::kInvalidArgument);
}

TEST(ChooseDeviceTest, InfiniBandServesByItsInterfaceOrByName) {
  std::vector<DeviceFacts> devices = {
      {"mlx5_0", true, {InfiniBandPort(1, "ib0"), InfiniBandPort(2, "ib1")}}};
  DeviceWish wish = For("10.0.0.1");
  ExpectNone(devices, wish, "no RDMA device has the address");
  wish.interface = "ib1";
  EXPECT_EQ(ChooseDevice(devices, wish)->port, 2);
  EXPECT_EQ(ChooseDevice(devices, wish)->link, LinkLayer::kInfiniBand);
  wish.interface = "eth0";
  wish.named = {"mlx5_0:1", "mlx5_0:2"};
  for (uint32_t lane : {0U, 1U, 2U, 3U}) {
    wish.lane = lane;
    EXPECT_EQ(ChooseDevice(devices, wish)->port, 1 + lane % 2) << lane;
  }
}

TEST(ChooseDeviceTest, AnAddressBecomesAGid) {
  Gid mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3};
  EXPECT_EQ(GidFor("10.1.2.3"), mapped);
  EXPECT_EQ(GidFor("::ffff:10.1.2.3"), mapped);
  EXPECT_EQ(GidFor("fe80::1%eth0"), GidFor("fe80::1"));
  EXPECT_FALSE(GidOfAddress("10.1.2").ok());
}

// The choice is a port that may serve and has the address, for any tables of GIDs.
TEST(ChooseDeviceTest, AChoiceAlwaysFits) {
  rc::check([] {
    std::vector<std::string> addresses = {"10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1"};
    std::vector<DeviceFacts> devices;
    int count = *rc::gen::inRange(0, 5);
    for (int i = 0; i < count; ++i) {
      auto own = *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(addresses));
      PortFacts port = RocePort(own);
      port.is_active = *rc::gen::arbitrary<bool>();
      devices.push_back({"dev" + std::to_string(i), *rc::gen::arbitrary<bool>(), {port}});
    }
    DeviceWish wish = For(*rc::gen::elementOf(addresses));
    wish.takes_software = *rc::gen::arbitrary<bool>();
    auto serves = [&](const DeviceFacts& device) {
      const PortFacts& port = device.ports[0];
      bool has = false;
      for (const GidFacts& one : port.gids) {
        has = has || (one.is_roce_v2 && one.gid == GidFor(wish.address));
      }
      return has && (device.is_hardware || wish.takes_software);
    };
    const DeviceFacts* first = nullptr;
    for (const DeviceFacts& device : devices) {
      if (first == nullptr && device.ports[0].is_active && serves(device)) first = &device;
    }
    auto choice = ChooseDevice(devices, wish);
    RC_ASSERT(choice.ok() == (first != nullptr));
    if (!choice.ok()) {
      RC_ASSERT(!choice.status().message().empty());
      return;
    }
    RC_ASSERT(choice->device == first->name);
    RC_ASSERT(choice->gid == GidFor(wish.address));
    RC_ASSERT(first->ports[0].gids[choice->gid_index].gid == choice->gid);
    RC_ASSERT(first->ports[0].gids[choice->gid_index].is_roce_v2);
  });
}

}  // namespace
}  // namespace byteps::transport
