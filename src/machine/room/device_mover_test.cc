#include "src/machine/room/device_mover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "src/base/allocation_count_for_test.h"
#include "src/base/count_for_test.h"
#include "src/device/host/host_devices.h"

namespace byteps::machine {
namespace {

using device::host::HostDevice;

constexpr size_t kMoved = 5000;
const local::WindowShape kMoverShape = {.ranks = 2, .blocks = 3, .block_bytes = 8192};

// Rank 1 of a machine, whose window lies in shared memory.
class DeviceMoverTest : public testing::Test {
 protected:
  DeviceMoverTest() {
    auto made = local::SharedMemory::Create(local::Window::BytesFor(kMoverShape),
                                            local::Access::kReadWrite);
    memory_ = std::make_shared<const local::SharedMemory>(std::move(made).value());
    window_ = std::make_unique<local::Window>(memory_->bytes(), kMoverShape, 1);
    mover_ = std::make_unique<DeviceMover>(*window_, memory_);
    std::fill_n(on_device_, kMoved, std::byte{7});
  }
  protocol::DeviceMemory Device(uint64_t owner = 1) { return {&lines_, owner}; }
  std::byte* PlaceIn(uint32_t block) const {
    return memory_->bytes().data() + memory_->bytes().size() - (block + 1) * kMoved;
  }
  void Down(uint32_t block) {
    mover_->Begin(block, Device(), {Mover::Way::kDown, PlaceIn(block), on_device_, kMoved});
  }
  // Waits for the end as the thread of the window does.
  Status Await(uint32_t block) {
    const Time deadline = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      const uint32_t events = window_->Events();
      const std::optional<Status> how = mover_->EndOf(block);
      if (how.has_value()) return *how;
      if (std::chrono::steady_clock::now() >= deadline) return {StatusCode::kDeadlineExceeded, ""};
      window_->Sleep(events, deadline);
    }
  }

  HostDevice device_{0};
  std::byte* const on_device_ = device_.NewMemory(2 * kMoved);
  device::DeviceLines lines_{
      {std::shared_ptr<device::Device>(), &device_}, 0, size_t{1} << 30, [](const std::string&) {}};
  std::shared_ptr<const local::SharedMemory> memory_;
  std::unique_ptr<local::Window> window_;
  std::unique_ptr<DeviceMover> mover_;
};

TEST_F(DeviceMoverTest, BytesGoThereAndBackAndTheEndWakesTheRank) {
  Down(0);
  EXPECT_TRUE(Await(0).ok());
  std::byte* const to = on_device_ + kMoved;
  mover_->Begin(0, Device(), {Mover::Way::kUp, to, PlaceIn(0), kMoved});
  EXPECT_TRUE(Await(0).ok());
  EXPECT_TRUE(std::equal(to, to + kMoved, on_device_));
  device_.FailOnce(HostDevice::Step::kCopy);
  Down(0);
  EXPECT_EQ(Await(0).code(), StatusCode::kUnavailable);
}

TEST_F(DeviceMoverTest, ACopyAllocatesNothing) {
  device_.copies_wait().Hold();  // more are under way than later
  for (uint32_t block : {0, 1, 2}) Down(block);
  device_.copies_wait().LetGo();
  for (uint32_t block : {0, 1, 2}) EXPECT_TRUE(Await(block).ok());
  const uint64_t before = AllocationCount();
  for (int i = 0; i < 100; ++i) {
    Down(1);
    (void)Await(1);
  }
  EXPECT_EQ(AllocationCount() - before, 0u);
}

// A copy that has begun is never taken back; others are, at once.
TEST_F(DeviceMoverTest, WhatIsCalledOffHasEndedOrEndsByItself) {
  device_.copies_wait().Hold();
  for (uint32_t block : {0, 1, 2}) Down(block);
  for (uint32_t block : {0, 1, 2}) mover_->CallOff(block);
  device_.copies_wait().LetGo();
  for (uint32_t block : {0, 1, 2}) {
    const Status how = Await(block);
    const bool is_there = *PlaceIn(block) == std::byte{7};
    EXPECT_EQ(how.ok(), is_there) << block;
  }
}

// The engine of the rank may end while the driver stands still.
TEST_F(DeviceMoverTest, CopiesOutliveTheWindow) {
  device_.copies_wait().Hold();
  Down(0);
  const std::weak_ptr<const local::SharedMemory> seen = memory_;
  mover_.reset();
  window_.reset();
  memory_.reset();
  EXPECT_FALSE(seen.expired());
  Count over;
  lines_.down.WhenOver(1, [&] { over.Add(); });
  device_.copies_wait().LetGo();
  EXPECT_TRUE(over.Reaches(1));
}

TEST_F(DeviceMoverTest, AWindowIsPinnedOnceForEachDevice) {
  const runtime::PrepareDevice prepare = PinsWindow(memory_, memory_->bytes(), "");
  for (int i = 0; i < 2; ++i) {
    prepare(lines_);
    Count made;
    lines_.pinned.Make(1, 0, [&](const device::PinnedMemory::Block&) { made.Add(); });
    ASSERT_TRUE(made.Reaches(1));
    EXPECT_TRUE(prepare(lines_)) << "there is nothing to wait for";
  }
  EXPECT_LT(device_.pinned_bytes(), 2 * memory_->bytes().size());
}

}  // namespace
}  // namespace byteps::machine
