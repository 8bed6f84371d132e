#include "src/device/copy_line.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "src/device/conformance.h"
#include "src/device/host/host_devices.h"

namespace byteps::device {
namespace {

TEST(CopyLine, NeighboursBecomeOneCopy) {
  host::HostDevice device(0);
  std::byte* const from = device.NewMemory(1000);
  std::vector<std::byte> to(1000);
  Count ended;
  {
    CopyLine line(Lent(device));
    // While the line tells the end of the first copy, the others queue up.
    line.Copy(1, to.data(), from, 1, [&](const Status&) {
      for (size_t i = 0; i < 10; ++i) {
        line.Copy(1, to.data() + i * 10, from + i * 10, 10, [&](const Status&) { ended.Add(); });
      }
      // Neighbours in one memory only are no neighbours.
      for (size_t i = 0; i < 10; ++i) {
        line.Copy(1, to.data() + 500 + i * 10, from + 200 + i * 20, 10,
                  [&](const Status&) { ended.Add(); });
      }
    });
  }
  EXPECT_EQ(ended.now(), 20);
  EXPECT_EQ(device.copies(), 1u + 1u + 10u);
}

TEST(CopyLine, ManyCopiesAreSeveralBatches) {
  host::HostDevice device(0);
  std::byte* const from = device.NewMemory(1);
  std::byte to{};
  Count ended;
  int failed = 0;
  {
    CopyLine line(Lent(device));
    line.Copy(1, &to, from, 1, [&](const Status&) {
      device.FailOnce(host::HostDevice::Step::kClose);  // of one batch
      for (size_t i = 0; i < 2 * CopyLine::kBatchCopies; ++i) {
        line.Copy(1, &to, from, 1, [&](const Status& status) {
          failed += status.ok() ? 0 : 1;
          ended.Add();
        });
      }
    });
  }
  EXPECT_EQ(ended.now(), static_cast<int>(2 * CopyLine::kBatchCopies));
  EXPECT_EQ(failed, static_cast<int>(CopyLine::kBatchCopies)) << "a batch has an error of its own";
}

// Tests that waiting for an end drops no copy.
TEST(CopyLine, TellsWhenAnOwnerHasNoCopyAnyMore) {
  host::HostDevice device(0);
  std::byte* const from = device.NewMemory(1);
  std::byte to{};
  Count ended;
  Count over;
  CopyLine line(Lent(device));
  line.WhenOver(1, [&] { over.Add(); });
  ASSERT_EQ(over.now(), 1) << "inside the call";
  device.copies_wait().Hold();
  const size_t count = 3 * CopyLine::kBatchCopies;
  for (size_t i = 0; i < count; ++i) {
    line.Copy(1 + i % 2, &to, from, 1, [&](const Status&) { ended.Add(); });
  }
  for (uint64_t owner : {1, 2}) {
    line.WhenOver(owner, [&] {
      EXPECT_GE(ended.now(), static_cast<int>(count / 2));
      over.Add();
    });
  }
  EXPECT_EQ(over.now(), 1);
  device.copies_wait().LetGo();
  ASSERT_TRUE(over.Reaches(3));
  EXPECT_EQ(ended.now(), static_cast<int>(count));
}

TEST(CopyLine, WhatIsCalledOffLeavesTheOrderOfTheOthers) {
  host::HostDevice device(0);
  std::byte* const from = device.NewMemory(1);
  std::byte to{};
  Count over;
  std::vector<int> order;
  CopyLine line(Lent(device));
  device.copies_wait().Hold();
  const int count = 4 * static_cast<int>(CopyLine::kBatchCopies);
  for (int i = 0; i < count; ++i) {
    line.Copy(i % 3 == 0 ? 1 : 2, &to, from, 1, [&order, i](const Status&) { order.push_back(i); });
  }
  line.CallOff(1, [&] { over.Add(); });
  line.WhenOver(2, [&] { over.Add(); });
  device.copies_wait().LetGo();
  ASSERT_TRUE(over.Reaches(2));
  EXPECT_TRUE(std::ranges::is_sorted(order));
  EXPECT_EQ(std::ranges::count_if(order, [](int i) { return i % 3 != 0; }),
            count - (count + 2) / 3);
}

// A test that holds copies sees only as many of them begin as have come before the line waits.
TEST(CopyLine, ACopyThatComesWhileTheLineWaitsBeginsBehindTheBatch) {
  host::HostDevice device(0);
  std::byte* const from = device.NewMemory(3);
  std::byte to[3] = {};
  Count ended;
  CopyLine line(Lent(device));
  auto count = [&](const Status&) { ended.Add(); };
  device.copies_wait().Hold();
  line.Copy(1, &to[0], from, 1, count);
  while (device.copies_wait().waiting() == 0) std::this_thread::yield();
  line.Copy(1, &to[2], from, 1, count);
  EXPECT_EQ(device.copies(), 1u);
  EXPECT_TRUE(line.TakeBack(1, &to[2])) << "it has not begun";
  line.Copy(1, &to[1], from + 2, 1, count);
  device.copies_wait().LetGo();
  ASSERT_TRUE(ended.Reaches(2));
  EXPECT_EQ(device.copies(), 2u);
}

TEST(CopyLine, SaysWhichCopyHasBeenUnderWayForLongest) {
  host::HostDevice device(0);
  std::byte* const from = device.NewMemory(1);
  std::byte to{};
  Count ended;
  CopyLine line(Lent(device));
  EXPECT_FALSE(line.Oldest().has_value());
  device.copies_wait().Hold();
  const Time before = std::chrono::steady_clock::now();
  for (uint64_t owner : {7, 8, 9}) {
    line.Copy(owner, &to, from, 1, [&](const Status&) { ended.Add(); });
  }
  while (device.copies_wait().waiting() == 0) std::this_thread::yield();
  const std::optional<CopyLine::UnderWay> oldest = line.Oldest();
  ASSERT_TRUE(oldest.has_value());
  EXPECT_EQ(oldest->owner, 7u);
  EXPECT_GE(oldest->since, before);
  EXPECT_LE(oldest->since, std::chrono::steady_clock::now());
  EXPECT_EQ(line.Oldest()->since, oldest->since);
  Count over;
  for (uint64_t owner : {7, 8, 9}) line.WhenOver(owner, [&] { over.Add(); });
  device.copies_wait().LetGo();
  ASSERT_TRUE(over.Reaches(3));
  EXPECT_FALSE(line.Oldest().has_value());
}

// Nobody could catch an exception of the line's thread.
TEST(CopyLine, WithoutMemoryForAnErrorACopyFails) {
  host::HostDevice device(0);
  std::byte* const from = device.NewMemory(1);
  std::byte to{};
  using Step = host::HostDevice::Step;
  for (Step step : {Step::kStream, Step::kCopy, Step::kClose, Step::kWait}) {
    CopyLine line(Lent(device));
    device.ThrowOnce(step);
    Count ended;
    Status how;
    line.Copy(1, &to, from, 1, [&](const Status& status) {
      how = status;
      ended.Add();
    });
    ASSERT_TRUE(ended.Reaches(1));
    EXPECT_EQ(how.code(), StatusCode::kExhausted) << static_cast<int>(step);
    line.Copy(1, &to, from, 1, [&](const Status& status) {
      how = status;
      ended.Add();
    });
    ASSERT_TRUE(ended.Reaches(2));
    EXPECT_TRUE(how.ok()) << how.ToString();
  }
}

}  // namespace
}  // namespace byteps::device
