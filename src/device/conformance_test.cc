#include "src/device/conformance.h"

#include <algorithm>
#include <atomic>

#include "src/device/copy_line.h"
#include "src/device/ready_line.h"

namespace byteps::device {
namespace {

// A soon that is long enough to see that something does not happen.
constexpr auto kSoon = std::chrono::milliseconds(50);
constexpr size_t kPiece = 4096;
constexpr size_t kPieces = 100;

// Pinned memory, which lines use.
class Pinned {
 public:
  Pinned(Device& device, size_t bytes) : device_(device) {
    Result<std::byte*> taken = device_.TakePinned(bytes);
    EXPECT_TRUE(taken.ok()) << taken.status().ToString();
    bytes_ = taken.value();
    std::fill_n(bytes_, bytes, std::byte{0});
  }
  ~Pinned() { device_.GivePinned(bytes_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  std::byte* data() const { return bytes_; }

 private:
  Device& device_;
  std::byte* bytes_ = nullptr;
};

bool AreAll(const std::byte* bytes, size_t count, uint8_t value) {
  return std::all_of(bytes, bytes + count, [&](std::byte b) { return b == std::byte{value}; });
}

CopyLine::Done Counted(Count& count, std::atomic<int>* failed = nullptr) {
  return [&count, failed](const Status& status) {
    if (failed != nullptr && !status.ok()) ++*failed;
    count.Add();
  };
}

TEST_P(DeviceConformance, ADeviceHasAName) {
  EXPECT_GE(user_->devices().count(), 2);
  EXPECT_FALSE(user_->devices().version().empty());
  EXPECT_FALSE(device(0).facts().name.empty());
  EXPECT_EQ(user_->devices().FactsOf(1).value().uuid, device(1).facts().uuid);
  EXPECT_NE(device(0).facts().uuid, device(1).facts().uuid);
  EXPECT_EQ(&device(1), &device(1)) << "a device is opened once";
  for (int number : {-1, user_->devices().count()}) {
    Result<Device*> none = user_->devices().Open(number);
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(none.status().message().find(std::to_string(number)), std::string::npos);
  }
}

TEST_P(DeviceConformance, MemoryBelongsToOneDevice) {
  std::byte* const own = user_->NewMemory(0, kPiece);
  std::byte* const other = user_->NewMemory(1, kPiece);
  EXPECT_TRUE(device(0).CheckMemory(own).ok());
  EXPECT_TRUE(device(0).CheckMemory(own + kPiece - 1).ok());
  EXPECT_TRUE(device(1).CheckMemory(other).ok());
  int of_host = 0;
  for (const void* wrong : {static_cast<const void*>(other), static_cast<const void*>(&of_host)}) {
    EXPECT_EQ(device(0).CheckMemory(wrong).code(), StatusCode::kInvalidArgument);
  }
}

TEST_P(DeviceConformance, CopiesGoThereAndBack) {
  const size_t bytes = kPiece * kPieces;
  std::byte* const from = user_->NewMemory(0, bytes);
  std::byte* const to = user_->NewMemory(0, bytes);
  for (size_t i = 0; i < kPieces; ++i) {
    user_->Fill(nullptr, from + i * kPiece, kPiece, static_cast<uint8_t>(i + 1));
  }
  Pinned host(device(), bytes);
  ASSERT_TRUE(device().MarkOf(nullptr).value()->Wait().ok());
  Count arrived;
  std::atomic<int> failed = 0;
  {
    CopyLine down(lent());
    CopyLine up(lent());
    for (size_t i = 0; i < kPieces; ++i) {
      const size_t at = i * kPiece;
      down.Copy(1, host.data() + at, from + at, kPiece, [&, i, at](const Status& status) {
        if (!status.ok() || !AreAll(host.data() + at, kPiece, static_cast<uint8_t>(i + 1)))
          ++failed;
        up.Copy(1, to + at, host.data() + at, kPiece, Counted(arrived, &failed));
      });
    }
    ASSERT_TRUE(arrived.Reaches(static_cast<int>(kPieces)));
  }
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(user_->Read(to, bytes), user_->Read(from, bytes));
}

// Two processes share such memory, and each device of a process reaches it.
TEST_P(DeviceConformance, MemoryFromElsewhereCanBePinned) {
  constexpr size_t kPage = 4096;
  alignas(kPage) static std::byte host[kPage] = {};
  std::byte* const from = user_->NewMemory(0, kPage);
  std::byte* const to = user_->NewMemory(1, kPage);
  user_->Fill(nullptr, from, kPage, 7);
  ASSERT_TRUE(device(0).MarkOf(nullptr).value()->Wait().ok());
  for (int number : {0, 1, 1}) {
    Status pinned = device(number).Pin(host, kPage);
    ASSERT_TRUE(pinned.ok()) << pinned.ToString();
  }
  device(0).Unpin(host);
  Count arrived;
  std::atomic<int> failed = 0;
  CopyLine down(lent(0));
  CopyLine up(lent(1));
  down.Copy(1, host, from, kPage, Counted(arrived, &failed));
  ASSERT_TRUE(arrived.Reaches(1));
  up.Copy(1, to, host, kPage, Counted(arrived, &failed));
  ASSERT_TRUE(arrived.Reaches(2));
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(user_->Read(to, kPage), std::vector<uint8_t>(kPage, 7));
  for (int i = 0; i < 2; ++i) device(1).Unpin(host);
}

TEST_P(DeviceConformance, ALineEndsWhenItsCopiesHaveEnded) {
  std::byte* const from = user_->NewMemory(0, kPiece);
  Pinned host(device(), kPiece);
  Count arrived;
  {
    CopyLine down(lent());
    for (int i = 0; i < 200; ++i) down.Copy(1, host.data(), from, kPiece, Counted(arrived));
  }
  EXPECT_EQ(arrived.now(), 200);
}

TEST_P(DeviceConformance, AFailedCopyIsToldAndTheNextOneArrives) {
  std::byte* const from = user_->NewMemory(0, kPiece);
  Pinned host(device(), kPiece);
  CopyLine down(lent());
  Count before;
  down.Copy(1, host.data(), from, kPiece, Counted(before));
  ASSERT_TRUE(before.Reaches(1)) << "the line has started";
  for (DeviceUser::Step step :
       {DeviceUser::Step::kCopy, DeviceUser::Step::kClose, DeviceUser::Step::kWait}) {
    user_->FailOnce(step);
    Count ended;
    Status how;
    down.Copy(1, host.data(), from, kPiece, [&](const Status& status) {
      how = status;
      ended.Add();
    });
    ASSERT_TRUE(ended.Reaches(1));
    EXPECT_EQ(how.code(), StatusCode::kUnavailable);
    EXPECT_NE(how.message().find("copy"), std::string::npos) << how.message();
    std::atomic<int> failed = 0;
    down.Copy(1, host.data(), from, kPiece, Counted(ended, &failed));
    ASSERT_TRUE(ended.Reaches(2));
    EXPECT_EQ(failed, 0);
  }
}

TEST_P(DeviceConformance, WhatIsCalledOffTouchesNoMemory) {
  std::byte* const from = user_->NewMemory(0, kPiece);
  user_->Fill(nullptr, from, kPiece, 7);
  Pinned host(device(), kPiece * kPieces);
  ASSERT_TRUE(device().MarkOf(nullptr).value()->Wait().ok());
  CopyLine down(lent());
  Count other;
  for (int round = 0; round < 20; ++round) {
    Count over;
    std::atomic<bool> is_over = false;
    std::atomic<int> late = 0;
    for (size_t i = 0; i < kPieces; ++i) {
      down.Copy(1, host.data() + i * kPiece, from, kPiece, [&](const Status&) {
        if (is_over) ++late;
      });
    }
    down.Copy(2, host.data(), from, kPiece, Counted(other));
    down.CallOff(1, [&] {
      is_over = true;
      over.Add();
    });
    ASSERT_TRUE(over.Reaches(1));
    ASSERT_TRUE(other.Reaches(round + 1)) << "the copies of others arrive";
    std::fill_n(host.data(), kPiece * kPieces, std::byte{0});
    Count behind;
    down.Copy(2, host.data(), from, 1, Counted(behind));
    ASSERT_TRUE(behind.Reaches(1));
    EXPECT_TRUE(AreAll(host.data() + kPiece, kPiece * (kPieces - 1), 0));
    EXPECT_EQ(late, 0);
  }
  bool inside = false;
  down.CallOff(3, [&] { inside = true; });
  EXPECT_TRUE(inside) << "an owner without copies is over at once";
}

TEST_P(DeviceConformance, AMarkIsReachedBehindWhatTheStreamWasGiven) {
  void* const stream = user_->NewStream();
  std::byte* const memory = user_->NewMemory(0, kPiece);
  user_->Hold(stream);
  user_->Fill(stream, memory, kPiece, 9);
  ReadyLine ready(lent());
  Count reached;
  std::atomic<int> failed = 0;
  ASSERT_TRUE(
      ready.Await(1, stream, device().MarkOf(stream).value(), Counted(reached, &failed)).ok());
  EXPECT_FALSE(reached.Reaches(1, kSoon));
  user_->LetGo(stream);
  ASSERT_TRUE(reached.Reaches(1));
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(user_->Read(memory, kPiece), std::vector<uint8_t>(kPiece, 9));
}

// However many streams stand still, another one is told.
TEST_P(DeviceConformance, StreamsDoNotWaitForEachOther) {
  ReadyLine ready(lent());
  std::vector<void*> held;
  Count late;
  for (size_t i = 0; i < ReadyLine::kThreadsMax + 2; ++i) {
    held.push_back(user_->NewStream());
    user_->Hold(held.back());
    ASSERT_TRUE(
        ready.Await(i, held.back(), device().MarkOf(held.back()).value(), Counted(late)).ok());
  }
  void* const free = user_->NewStream();
  Count reached;
  for (uint64_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(ready.Await(10 + i, free, device().MarkOf(free).value(), Counted(reached)).ok());
  }
  ASSERT_TRUE(reached.Reaches(50));
  EXPECT_EQ(late.now(), 0);
  EXPECT_TRUE(ready.CallOff(0));
  EXPECT_TRUE(ready.CallOff(ReadyLine::kThreadsMax + 1)) << "a mark that the last thread asks for";
  for (size_t i = held.size(); i-- > 0;) {
    user_->LetGo(held[i]);
    if (i == held.size() - 1 || i == 0) continue;
    ASSERT_TRUE(late.Reaches(static_cast<int>(held.size() - 1 - i)));
  }
}

TEST_P(DeviceConformance, AMarkThatIsCalledOffIsNeverTold) {
  void* const stream = user_->NewStream();
  user_->Hold(stream);
  Count told;
  {
    ReadyLine ready(lent());
    for (uint64_t owner : {1, 2, 3}) {
      ASSERT_TRUE(ready.Await(owner, stream, device().MarkOf(stream).value(), Counted(told)).ok());
    }
    EXPECT_FALSE(told.Reaches(1, kSoon));
    for (uint64_t owner : {2, 1, 3}) EXPECT_TRUE(ready.CallOff(owner)) << owner;
    EXPECT_FALSE(ready.CallOff(1)) << "twice";
    EXPECT_FALSE(ready.CallOff(4)) << "unknown";
    user_->LetGo(stream);
  }
  EXPECT_EQ(told.now(), 0);
}

TEST_P(DeviceConformance, AMarkSaysWhetherItIsReached) {
  void* const stream = user_->NewStream();
  user_->Hold(stream);
  std::unique_ptr<Mark> mark = device().MarkOf(stream).value();
  EXPECT_FALSE(mark->IsReached().value());
  user_->LetGo(stream);
  ASSERT_TRUE(mark->Wait().ok());
  EXPECT_TRUE(mark->IsReached().value());
}

// A user's graph stays whole, whatever is asked of a device on the thread that captures it.
TEST_P(DeviceConformance, ACallInsideACaptureOfAnotherStreamDoesNotBreakIt) {
  void* const captured = user_->NewStream();
  user_->BeginCapture(captured);
  Pinned(device(), kPiece);
  EXPECT_EQ(device().MarkOf(captured).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(user_->EndCapture(captured));
}

TEST_P(DeviceConformance, ACapturedStreamIsRefusedAndItsCaptureStaysWhole) {
  void* const stream = user_->NewStream();
  void* const other = user_->NewStream();
  std::byte* const from = user_->NewMemory(0, kPiece);
  Pinned host(device(), kPiece);
  CopyLine down(lent());
  ReadyLine ready(lent());
  Count arrived;
  down.Copy(1, host.data(), from, kPiece, Counted(arrived));
  ASSERT_TRUE(ready.Await(1, other, device().MarkOf(other).value(), Counted(arrived)).ok());
  ASSERT_TRUE(arrived.Reaches(2)) << "the lines have started";
  user_->BeginCapture(stream);
  Result<std::unique_ptr<Mark>> mark = device().MarkOf(stream);
  ASSERT_FALSE(mark.ok());
  EXPECT_EQ(mark.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(mark.status().message().find("captured"), std::string::npos);
  down.Copy(1, host.data(), from, kPiece, Counted(arrived));
  ASSERT_TRUE(ready.Await(1, other, device().MarkOf(other).value(), Counted(arrived)).ok());
  ASSERT_TRUE(arrived.Reaches(4));
  EXPECT_TRUE(user_->EndCapture(stream));
  EXPECT_TRUE(device().MarkOf(stream).ok());
}

}  // namespace
}  // namespace byteps::device
