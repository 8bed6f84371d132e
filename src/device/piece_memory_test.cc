#include "src/device/piece_memory.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/buffer_pool.h"
#include "src/device/conformance.h"
#include "src/device/host/host_devices.h"

namespace byteps::device {
namespace {

class PieceMemoryTest : public ::testing::Test {
 protected:
  static constexpr size_t kSlab = 65536;
  // Returns when everything that was asked before has been answered.
  void AwaitPinned() {
    Count made;
    pinned_.Make(1, 1, [&](const PinnedMemory::Block&) { made.Add(); });
    ASSERT_TRUE(made.Reaches(1));
  }

  host::HostDevice device_{0};
  int warnings_ = 0;
  PinnedMemory pinned_{Lent(device_), size_t{1} << 20, [this](const std::string&) { ++warnings_; }};
  PieceMemory memory_{pinned_, kSlab};
};

TEST_F(PieceMemoryTest, TheFirstSlabComesBeforeABlockThatIsAskedLater) {
  device_.pinned_waits().Hold();
  EXPECT_FALSE(memory_.Prepare());
  Count made;
  pinned_.Make(1, 1, [&](const PinnedMemory::Block&) {
    EXPECT_TRUE(memory_.Prepare());
    EXPECT_EQ(memory_.free_bytes(), kSlab);
    made.Add();
  });
  EXPECT_FALSE(memory_.Prepare()) << "and nobody asks twice";
  device_.pinned_waits().LetGo();
  ASSERT_TRUE(made.Reaches(1));
  EXPECT_LT(device_.pinned_bytes(), 2 * kSlab);
}

TEST_F(PieceMemoryTest, BuffersOfAnySizeFindRoomAgain) {
  memory_.Prepare();
  AwaitPinned();
  std::mt19937 random(1);
  std::vector<std::pair<std::byte*, size_t>> taken;
  for (int step = 0; step < 3000; ++step) {
    const size_t bytes = 1 + random() % 9000;
    if (random() % 2 == 0 && memory_.free_bytes() > kSlab / 2) {
      std::byte* const memory = memory_.Make(bytes);
      ASSERT_NE(memory, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(memory) % kBufferAlignment, 0u);
      std::memset(memory, static_cast<int>(taken.size()), bytes);
      taken.emplace_back(memory, bytes);
    } else if (!taken.empty()) {
      std::swap(taken[random() % taken.size()], taken.back());
      memory_.Free(taken.back().first, taken.back().second);
      taken.pop_back();
    }
  }
  for (const auto& [memory, bytes] : taken) memory_.Free(memory, bytes);
  EXPECT_EQ(memory_.free_bytes(), kSlab);
  EXPECT_EQ(memory_.ordinary_bytes(), 0u);
  device_.pinned_waits().Hold();  // no other slab comes
  std::byte* const all = memory_.Make(kSlab);
  EXPECT_EQ(memory_.free_bytes(), 0u) << "the memory is whole again";
  memory_.Free(all, kSlab);
  device_.pinned_waits().LetGo();
}

TEST_F(PieceMemoryTest, ThereIsMoreBeforeThereIsNone) {
  memory_.Prepare();
  AwaitPinned();
  std::byte* const most = memory_.Make(kSlab - kSlab / 8);
  AwaitPinned();
  EXPECT_EQ(memory_.free_bytes(), kSlab / 8 + kSlab);
  std::byte* const more = memory_.Make(kSlab / 2);
  EXPECT_EQ(memory_.ordinary_bytes(), 0u);
  memory_.Free(most, kSlab - kSlab / 8);
  memory_.Free(more, kSlab / 2);
}

TEST_F(PieceMemoryTest, NobodyWaitsForMore) {
  memory_.Prepare();
  AwaitPinned();
  device_.pinned_waits().Hold();
  {
    BufferPool pool(memory_);
    BufferRef pinned = pool.Take(kSlab);
    BufferRef ordinary = pool.Take(1000);
    ASSERT_NE(ordinary.data(), nullptr);
    std::memset(ordinary.data(), 1, 1000);
    EXPECT_GT(memory_.ordinary_bytes(), 0u);
    EXPECT_FALSE(memory_.HasBetter());
    device_.pinned_waits().LetGo();
    AwaitPinned();
    EXPECT_TRUE(memory_.HasBetter()) << "the next slab has come";
    ordinary = BufferRef();
    EXPECT_TRUE(pool.FreeUnused());
    EXPECT_EQ(memory_.ordinary_bytes(), 0u);
  }
  EXPECT_EQ(warnings_, 0);
}

TEST_F(PieceMemoryTest, WithoutPinnedMemoryItIsOrdinary) {
  device_.RefusePinned();
  memory_.Prepare();
  AwaitPinned();
  EXPECT_TRUE(memory_.Prepare()) << "there is nothing to wait for";
  std::byte* const memory = memory_.Make(1000);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory_.ordinary_bytes(), 1024u);
  memory_.Free(memory, 1000);
  EXPECT_EQ(warnings_, 1);
}

TEST(PieceMemoryEnd, NeedsNoAnswerOfTheDriver) {
  host::HostDevice device(0);
  device.pinned_waits().Hold();
  PinnedMemory pinned(Lent(device), size_t{1} << 20, [](const std::string&) {});
  {
    PieceMemory(pinned).Prepare();
  }
  device.pinned_waits().LetGo();
}

}  // namespace
}  // namespace byteps::device
