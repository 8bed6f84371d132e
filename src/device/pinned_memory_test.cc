#include "src/device/pinned_memory.h"

#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "src/device/host/host_devices.h"

namespace byteps::device {
namespace {

class PinnedMemoryTest : public ::testing::Test {
 protected:
  static constexpr size_t kLimit = 100000;
  host::HostDevice device_{0};
  int warnings_ = 0;
  std::string warning_;
  PinnedMemory memory_{device_, kLimit, [this](const std::string& text) {
                         ++warnings_;
                         warning_ = text;
                       }};
};

TEST_F(PinnedMemoryTest, ABlockIsUsedAgainLastInFirstOut) {
  std::byte* first = nullptr;
  std::byte* second = nullptr;
  {
    PinnedMemory::Block one = memory_.Take(10000);
    first = one.data();
    PinnedMemory::Block other = memory_.Take(10000);
    second = other.data();
    EXPECT_TRUE(one.is_pinned() && other.is_pinned());
    std::memset(first, 1, 10000);
    one = PinnedMemory::Block();  // given back first
  }
  const size_t held = device_.pinned_bytes();
  EXPECT_EQ(memory_.bytes_held(), held);
  EXPECT_LE(held, 2 * 12500u) << "a block wastes at most a quarter";
  PinnedMemory::Block again = memory_.Take(9900);
  EXPECT_EQ(again.data(), second);
  PinnedMemory::Block and_again = memory_.Take(10100);
  EXPECT_EQ(and_again.data(), first);
  EXPECT_EQ(device_.pinned_bytes(), held) << "steady state allocates nothing";
  EXPECT_EQ(memory_.Take(0).data(), nullptr);
}

TEST_F(PinnedMemoryTest, BehindTheLimitItIsOrdinaryMemory) {
  PinnedMemory::Block most = memory_.Take(90000);
  ASSERT_TRUE(most.is_pinned());
  for (int i = 0; i < 2; ++i) {
    PinnedMemory::Block more = memory_.Take(90000);
    EXPECT_FALSE(more.is_pinned());
    std::memset(more.data(), 1, 90000);
  }
  EXPECT_LE(device_.pinned_bytes(), kLimit);
  EXPECT_EQ(warnings_, 1);
  EXPECT_NE(warning_.find("100000 bytes"), std::string::npos) << warning_;
}

TEST_F(PinnedMemoryTest, UnusedBlocksOfOtherSizesMakeRoom) {
  memory_.Take(60000);
  memory_.Take(20000);
  PinnedMemory::Block large = memory_.Take(90000);
  EXPECT_TRUE(large.is_pinned());
  EXPECT_LE(device_.pinned_bytes(), kLimit);
  EXPECT_EQ(warnings_, 0);
}

TEST_F(PinnedMemoryTest, ADeviceThatRefusesCostsAWarning) {
  device_.RefusePinned();
  PinnedMemory::Block block = memory_.Take(100);
  EXPECT_FALSE(block.is_pinned());
  EXPECT_EQ(warnings_, 1);
  EXPECT_NE(warning_.find("the test wants no pinned memory"), std::string::npos) << warning_;
  EXPECT_EQ(memory_.bytes_held(), 0u);
}

TEST_F(PinnedMemoryTest, NothingIsLeftAtTheEnd) {
  host::HostDevice device(0);
  {
    PinnedMemory memory(device, kLimit, [](const std::string&) {});
    memory.Take(5000);
    memory.Take(50);
    EXPECT_GT(device.pinned_bytes(), 0u);
  }
  EXPECT_EQ(device.pinned_bytes(), 0u);
}

}  // namespace
}  // namespace byteps::device
