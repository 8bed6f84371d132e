#include "src/runtime/worker/device_paths.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/allocation_count_for_test.h"
#include "src/base/count_for_test.h"
#include "src/device/host/host_devices.h"

namespace byteps::runtime {
namespace {

using device::host::HostDevice;
using protocol::PieceInHand;
using protocol::StageVerdict;

constexpr size_t kBytes = 5000;

// A lane that carries one piece after the other.
class DevicePathsTest : public ::testing::Test {
 protected:
  DevicePathsTest() {
    exchange_.name = "w";
    exchange_.memory = Memory::kDevice;
    exchange_.device = {&lines_, 7};
    lines_.pieces.Prepare();
    Count made;
    lines_.pinned.Make(1, 1, [&](const device::PinnedMemory::Block&) { made.Add(); });
    EXPECT_TRUE(made.Reaches(1)) << "the memory for pieces is there";
    std::memset(memory_, 1, kBytes);
  }

  PieceInHand Hand(std::optional<ConstByteSpan> input, const protocol::PiecePath& path,
                   BufferRef buffer = {}) {
    operations::Spans spans;
    spans.push = ConstByteSpan(memory_, kBytes);
    spans.want = ByteSpan(memory_ + kBytes, kBytes);
    return {exchange_,  {},      spans, StatusCode::kOk,  input, false,
            *path.pool, output_, {},    std::move(buffer)};
  }
  // Fetches the piece, and stores what was fetched.
  void Carry() {
    const protocol::PiecePath& path = paths_.PathOf(exchange_);
    PieceInHand fetched = Hand(ConstByteSpan(memory_, kBytes), path);
    ASSERT_EQ(path.before[0]->Enter(fetched), StageVerdict::kPending);
    ASSERT_TRUE(resumed_.Reaches(++carried_));
    const protocol::PieceBytes made = output_;
    PieceInHand stored = Hand(made.span(), path, made.buffer);
    ASSERT_EQ(path.behind[0]->Enter(stored), StageVerdict::kPending);
    ASSERT_TRUE(resumed_.Reaches(++carried_));
  }

  HostDevice device_{0};
  std::byte* const memory_ = device_.NewMemory(2 * kBytes);
  device::DeviceLines lines_{
      {std::shared_ptr<device::Device>(), &device_}, 0, size_t{1} << 30, [](const std::string&) {}};
  int carried_ = 0;
  Count resumed_;
  Status how_;
  protocol::Exchange exchange_;
  BufferPool pool_;
  DevicePaths paths_{{pool_, protocol::Codecs::None(),
                      [this](const protocol::PieceTicket&, StageVerdict, const Status& how) {
                        how_ = how;
                        resumed_.Add();
                      }},
                     3};
  protocol::PieceBytes output_;
};

TEST_F(DevicePathsTest, BytesGoThereAndBackThroughPinnedMemory) {
  Carry();
  EXPECT_EQ(std::memcmp(memory_, memory_ + kBytes, kBytes), 0);
  EXPECT_EQ(device_.copies(), 2u);
  EXPECT_EQ(lines_.pieces.ordinary_bytes(), 0u);
  EXPECT_LT(lines_.pieces.free_bytes(), device::PieceMemory::kSlabBytes);
}

TEST_F(DevicePathsTest, APieceAllocatesNothing) {
  // More pieces than ever are under way below, however late the line's thread is.
  device_.copies_wait().Hold();
  const protocol::PiecePath& path = paths_.PathOf(exchange_);
  for (int i = 0; i < 50; ++i) {
    PieceInHand fetched = Hand(ConstByteSpan(memory_, kBytes), path);
    ASSERT_EQ(path.before[0]->Enter(fetched), StageVerdict::kPending);
  }
  device_.copies_wait().LetGo();
  ASSERT_TRUE(resumed_.Reaches(carried_ += 50));
  for (int i = 0; i < 100; ++i) Carry();
  const uint64_t before = AllocationCount();
  for (int i = 0; i < 100; ++i) Carry();
  EXPECT_EQ(AllocationCount() - before, 0u);
}

TEST_F(DevicePathsTest, TensorsOfTheHostPassNoStage) {
  exchange_.memory = Memory::kHost;
  const protocol::PiecePath& path = paths_.PathOf(exchange_);
  EXPECT_TRUE(path.before.empty() && path.behind.empty() && !path.staged);
  EXPECT_EQ(path.pool, nullptr);
}

TEST_F(DevicePathsTest, ACopyThatFailsSaysWhoseAndWhat) {
  device_.FailOnce(HostDevice::Step::kCopy);
  const protocol::PiecePath& path = paths_.PathOf(exchange_);
  PieceInHand fetched = Hand(ConstByteSpan(memory_, kBytes), path);
  ASSERT_EQ(path.before[0]->Enter(fetched), StageVerdict::kPending);
  ASSERT_TRUE(resumed_.Reaches(1));
  EXPECT_EQ(how_.code(), StatusCode::kUnavailable);
  EXPECT_EQ(how_.message().find("rank 3 has no input for tensor 'w': a copy"), 0u)
      << how_.message();
  device_.FailOnce(HostDevice::Step::kWait);
  const protocol::PieceBytes made = output_;
  PieceInHand stored = Hand(made.span(), path, made.buffer);
  ASSERT_EQ(path.behind[0]->Enter(stored), StageVerdict::kPending);
  ASSERT_TRUE(resumed_.Reaches(2));
  EXPECT_EQ(how_.message().find("tensor 'w': a copy"), 0u) << how_.message();
}

// The pieces of a model have many sizes, and the pool keeps the peak of each.
TEST_F(DevicePathsTest, BuffersOfOtherSizesGoBeforeMemoryIsOrdinary) {
  const protocol::PiecePath& path = paths_.PathOf(exchange_);
  const size_t most = device::PieceMemory::kSlabBytes * 3 / 4;
  device_.pinned_waits().Hold();  // there is no second slab
  for (size_t bytes : {most, most - most / 4, most - most / 8}) {
    std::vector<BufferRef> taken;
    for (size_t sum = 0; sum + bytes / 8 <= most; sum += bytes / 8) {
      taken.push_back(path.pool->Take(bytes / 8));
    }
    EXPECT_EQ(lines_.pieces.ordinary_bytes(), 0u) << bytes;
  }
  device_.pinned_waits().LetGo();
}

// Nobody waits for the copy of a piece that is abandoned, and nobody else gets its buffer.
TEST_F(DevicePathsTest, AnAbandonedCopyKeepsItsBuffer) {
  device_.copies_wait().Hold();
  const protocol::PiecePath& path = paths_.PathOf(exchange_);
  PieceInHand fetched = Hand(ConstByteSpan(memory_, kBytes), path);
  ASSERT_EQ(path.before[0]->Enter(fetched), StageVerdict::kPending);
  std::byte* const first = output_.buffer.data();
  path.before[0]->Abandon(fetched.ticket);
  output_ = protocol::PieceBytes();
  PieceInHand again = Hand(ConstByteSpan(memory_, kBytes), path);
  ASSERT_EQ(path.before[0]->Enter(again), StageVerdict::kPending);
  EXPECT_NE(output_.buffer.data(), first);
  output_ = protocol::PieceBytes();
  Count over;
  lines_.down.WhenOver(7, [&] { over.Add(); });
  EXPECT_EQ(over.now(), 0);
  device_.copies_wait().LetGo();
  ASSERT_TRUE(over.Reaches(1));
  paths_.PathOf(exchange_);
  BufferRef next[2] = {path.pool->Take(kBytes), path.pool->Take(kBytes)};
  EXPECT_TRUE(next[0].data() == first || next[1].data() == first) << "both are free again";
}

// The lane may end while the device's driver stands still.
TEST(DevicePathsEnd, CopiesOutliveTheirLane) {
  HostDevice device(0);
  std::byte* const memory = device.NewMemory(2 * kBytes);
  device::DeviceLines lines({std::shared_ptr<device::Device>(), &device}, 0, size_t{1} << 30,
                            [](const std::string&) {});
  device.copies_wait().Hold();
  {
    protocol::Exchange exchange;
    exchange.name = "w";
    exchange.memory = Memory::kDevice;
    exchange.device = {&lines, 7};
    BufferPool pool;
    DevicePaths paths({pool, protocol::Codecs::None(),
                       [](const protocol::PieceTicket&, StageVerdict, const Status&) {}},
                      3);
    protocol::PieceBytes output;
    const protocol::PiecePath& path = paths.PathOf(exchange);
    operations::Spans spans;
    spans.push = ConstByteSpan(memory, kBytes);
    PieceInHand hand{exchange,   {},     spans, StatusCode::kOk, spans.push, false,
                     *path.pool, output, {}};
    ASSERT_EQ(path.before[0]->Enter(hand), StageVerdict::kPending);
  }
  device.copies_wait().LetGo();
}

}  // namespace
}  // namespace byteps::runtime
