#include "src/device/pinned_memory.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/device/conformance.h"
#include "src/device/host/host_devices.h"

namespace byteps::device {
namespace {

class PinnedMemoryTest : public ::testing::Test {
 protected:
  static constexpr size_t kLimit = 100000;
  host::HostDevice device_{0};
  // Takes a block as an operation does: one that nobody uses, else the thread makes one.
  PinnedMemory::Block Take(size_t bytes) {
    PinnedMemory::Block block = memory_.TakeUnused(bytes);
    if (block.data() != nullptr || bytes == 0) return block;
    Count made;
    memory_.Make(1, bytes, [&](PinnedMemory::Block of) {
      block = std::move(of);
      made.Add();
    });
    EXPECT_TRUE(made.Reaches(1));
    return block;
  }

  int warnings_ = 0;
  std::string warning_;
  PinnedMemory memory_{Lent(device_), kLimit, [this](const std::string& text) {
                         ++warnings_;
                         warning_ = text;
                       }};
};

TEST_F(PinnedMemoryTest, ABlockIsUsedAgainLastInFirstOut) {
  std::byte* first = nullptr;
  std::byte* second = nullptr;
  {
    PinnedMemory::Block one = Take(10000);
    first = one.data();
    PinnedMemory::Block other = Take(10000);
    second = other.data();
    EXPECT_TRUE(one.is_pinned() && other.is_pinned());
    std::memset(first, 1, 10000);
    one = PinnedMemory::Block();  // given back first
  }
  const size_t held = device_.pinned_bytes();
  EXPECT_EQ(memory_.bytes_held(), held);
  EXPECT_LE(held, 2 * 12500u) << "a block wastes at most a quarter";
  PinnedMemory::Block again = Take(9900);
  EXPECT_EQ(again.data(), second);
  PinnedMemory::Block and_again = Take(10100);
  EXPECT_EQ(and_again.data(), first);
  EXPECT_EQ(device_.pinned_bytes(), held) << "steady state allocates nothing";
  EXPECT_EQ(Take(0).data(), nullptr);
}

TEST_F(PinnedMemoryTest, BehindTheLimitItIsOrdinaryMemory) {
  PinnedMemory::Block most = Take(90000);
  ASSERT_TRUE(most.is_pinned());
  for (int i = 0; i < 2; ++i) {
    PinnedMemory::Block more = Take(90000);
    EXPECT_FALSE(more.is_pinned());
    std::memset(more.data(), 1, 90000);
  }
  EXPECT_LE(device_.pinned_bytes(), kLimit);
  EXPECT_EQ(warnings_, 1);
  EXPECT_NE(warning_.find("100000 bytes"), std::string::npos) << warning_;
}

TEST_F(PinnedMemoryTest, UnusedBlocksOfOtherSizesMakeRoom) {
  Take(60000);
  Take(20000);
  PinnedMemory::Block large = Take(90000);
  EXPECT_TRUE(large.is_pinned());
  EXPECT_LE(device_.pinned_bytes(), kLimit);
  EXPECT_EQ(warnings_, 0);
}

TEST_F(PinnedMemoryTest, ADeviceThatRefusesCostsAWarning) {
  device_.RefusePinned();
  PinnedMemory::Block block = Take(100);
  EXPECT_FALSE(block.is_pinned());
  EXPECT_EQ(warnings_, 1);
  EXPECT_NE(warning_.find("the test wants no pinned memory"), std::string::npos) << warning_;
  EXPECT_EQ(memory_.bytes_held(), 0u);
}

TEST_F(PinnedMemoryTest, ABlockBeyondTheLimitTakesNothingFromOthers) {
  Take(60000);
  const size_t held = memory_.bytes_held();
  EXPECT_FALSE(Take(200000).is_pinned());
  EXPECT_EQ(memory_.bytes_held(), held);
  PinnedMemory::Block used = Take(60000);
  Take(20000);
  const size_t both = memory_.bytes_held();
  EXPECT_FALSE(Take(90000).is_pinned()) << "the unused block would not suffice";
  EXPECT_EQ(memory_.bytes_held(), both);
}

// The driver does not answer: nobody waits for it, and the end of the memory does not either.
TEST_F(PinnedMemoryTest, WhoHasCalledOffGetsNoBlock) {
  device_.pinned_waits().Hold();
  Count made;
  for (uint64_t owner : {1, 2}) {
    memory_.Make(owner, 100, [&](PinnedMemory::Block) { made.Add(); });
  }
  for (uint64_t owner : {2, 1}) EXPECT_TRUE(memory_.CallOff(owner));
  EXPECT_FALSE(memory_.CallOff(1));
  device_.pinned_waits().LetGo();
  EXPECT_TRUE(Take(100).is_pinned());
  EXPECT_EQ(made.now(), 0);
}

TEST_F(PinnedMemoryTest, SaysThatTheDriverDoesNotAnswer) {
  EXPECT_FALSE(memory_.HasWaited(milliseconds(0))) << "nobody asks";
  device_.pinned_waits().Hold();
  memory_.Make(1, 100, [](PinnedMemory::Block) {});
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!memory_.HasWaited(milliseconds(1)) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(memory_.HasWaited(milliseconds(1)));
  EXPECT_FALSE(memory_.HasWaited(seconds(3600)));
  EXPECT_TRUE(memory_.CallOff(1));
  EXPECT_TRUE(memory_.HasWaited(milliseconds(1))) << "who has called off waits no longer";
  device_.pinned_waits().LetGo();
  EXPECT_TRUE(Take(100).is_pinned());
  EXPECT_FALSE(memory_.HasWaited(milliseconds(0)));
}

TEST_F(PinnedMemoryTest, OrdinaryMemoryIsThereAtOnce) {
  device_.pinned_waits().Hold();
  PinnedMemory::Block block = PinnedMemory::Ordinary(1000);
  EXPECT_FALSE(block.is_pinned());
  std::memset(block.data(), 1, 1000);
  EXPECT_EQ(PinnedMemory::Ordinary(0).data(), nullptr);
  EXPECT_EQ(PinnedMemory::Ordinary(SIZE_MAX / 2).data(), nullptr) << "more than there is";
  device_.pinned_waits().LetGo();
}

// Memory that the process has from elsewhere stays until it is not pinned any more.
TEST_F(PinnedMemoryTest, ForeignMemoryIsPinnedBeforeTheNextBlock) {
  host::HostDevice device(0);
  auto shared = std::make_shared<std::vector<std::byte>>(5000);
  const std::weak_ptr<std::vector<std::byte>> seen = shared;
  {
    PinnedMemory memory(Lent(device), kLimit, [](const std::string&) {});
    device.pinned_waits().Hold();
    EXPECT_FALSE(memory.Pin(shared, *shared, ""));
    EXPECT_FALSE(memory.Pin(shared, *shared, "")) << "asked already";
    Count made;
    memory.Make(1, 0, [&](const PinnedMemory::Block&) { made.Add(); });
    EXPECT_EQ(made.now(), 0);
    device.pinned_waits().LetGo();
    ASSERT_TRUE(made.Reaches(1));
    EXPECT_TRUE(memory.Pin(shared, *shared, ""));
    EXPECT_GE(device.pinned_bytes(), 5000u);
    EXPECT_LT(memory.bytes_held(), 5000u) << "it does not count";
    shared.reset();
    EXPECT_FALSE(seen.expired());
  }
  EXPECT_TRUE(seen.expired());
  EXPECT_EQ(device.pinned_bytes(), 0u);
}

TEST_F(PinnedMemoryTest, ForeignMemoryThatIsRefusedCostsOneWarning) {
  device_.RefusePinned();
  auto shared = std::make_shared<std::vector<std::byte>>(5000);
  for (int i = 0; i < 2; ++i) {
    memory_.Pin(shared, *shared, "look there");
    Count made;
    memory_.Make(1, 0, [&](const PinnedMemory::Block&) { made.Add(); });
    ASSERT_TRUE(made.Reaches(1));
    EXPECT_TRUE(memory_.Pin(shared, *shared, "look there")) << "there is nothing to wait for";
  }
  EXPECT_EQ(warnings_, 2) << "one for the shared memory, and one for the block";
}

TEST_F(PinnedMemoryTest, NothingIsLeftAtTheEnd) {
  host::HostDevice device(0);
  {
    PinnedMemory memory(Lent(device), kLimit, [](const std::string&) {});
    Count made;
    for (size_t bytes : {5000, 50}) {
      memory.Make(1, bytes, [&](PinnedMemory::Block) { made.Add(); });
    }
    ASSERT_TRUE(made.Reaches(2));
    EXPECT_GT(device.pinned_bytes(), 0u);
  }
  EXPECT_EQ(device.pinned_bytes(), 0u);
}

// A thread that stands still in the driver is left behind, and has what it uses.
TEST_F(PinnedMemoryTest, ADriverThatDoesNotAnswerDoesNotHoldUpTheEnd) {
  auto device = std::make_shared<host::HostDevice>(0);
  const std::weak_ptr<host::HostDevice> seen = device;
  device->pinned_waits().Hold();
  {
    PinnedMemory memory(device, kLimit, [](const std::string&) {}, milliseconds(20));
    memory.Make(1, 100, [](PinnedMemory::Block) {});
    EXPECT_TRUE(memory.CallOff(1));
  }
  device->pinned_waits().LetGo();
  device.reset();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!seen.expired() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(seen.expired()) << "the thread ends when the driver has answered";
}

}  // namespace
}  // namespace byteps::device
