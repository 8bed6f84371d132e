#include "src/session/device/staged_operations.h"

#include <atomic>
#include <cstring>
#include <new>
#include <random>

#include <gtest/gtest.h>

#include "src/base/count_for_test.h"
#include "src/device/host/host_devices.h"

namespace byteps::session {
namespace {

using device::host::HostDevice;
using device::host::HostDevices;
using device::host::HostStream;

constexpr int64_t kElements = 1000;
constexpr size_t kBytes = kElements * sizeof(float);
constexpr auto kPatienceOfStaged = seconds(60);

// The end of an operation. Thread-safe.
class StagedEnd {
 public:
  StagedOperations::Done done() {
    return [this](protocol::Outcome outcome) {
      MutexLock lock(mutex_);
      ++ends_;
      status_ = outcome.status;
      changed_.notify_all();
    };
  }
  Status Wait(std::chrono::milliseconds limit = kPatienceOfStaged) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    MutexLock lock(mutex_);
    while (ends_ == 0) {
      if (!lock.WaitUntil(changed_, deadline) && ends_ == 0) {
        return {StatusCode::kInternal, "the operation has not ended"};
      }
    }
    return status_;
  }
  int ends() {
    MutexLock lock(mutex_);
    return ends_;
  }

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  int ends_ BYTEPS_GUARDED_BY(mutex_) = 0;
  Status status_ BYTEPS_GUARDED_BY(mutex_);
};

// Stands in place of an engine: adds 1 to each element.
class StagedOperationsTest : public ::testing::Test {
 protected:
  StagedOperationsTest() {
    input_ = Memory(0, 0);
    output_ = Memory(0, -1);
  }
  ~StagedOperationsTest() override {
    staged_.Stop();
    EXPECT_TRUE(staged_.WaitForEnd(std::chrono::steady_clock::now() + kPatienceOfStaged));
  }

  std::byte* Memory(int device, float value) {
    std::byte* const memory = devices_.device(device).NewMemory(kBytes);
    std::fill_n(reinterpret_cast<float*>(memory), kElements, value);
    return memory;
  }
  static float At(const std::byte* memory, int64_t element = kElements - 1) {
    return reinterpret_cast<const float*>(memory)[element];
  }
  static protocol::Operation Sum(const std::byte* input, std::byte* output) {
    protocol::Operation operation;
    operation.name = "w";
    operation.spec.op = wire::Op::kSum;
    operation.spec.dtype = DataType::kFloat32;
    operation.spec.shape = {kElements};
    operation.input = input;
    operation.output = output;
    return operation;
  }
  Status Start(StagedEnd& end, std::optional<void*> stream, Duration limit = {}) {
    return staged_.Start(Sum(input_, output_), kBytes, limit, {0, stream}, end.done());
  }

  std::unique_ptr<device::Devices> Found() {
    auto devices = std::make_unique<HostDevices>(2);
    host_ = devices.get();
    return devices;
  }
  void Submit(const protocol::Operation& operation, const StagedOperations::Done& done) {
    if (throws_) throw std::bad_alloc();
    ++submitted_;
    submitted_at_.Add();
    protocol::Outcome outcome;
    if (!operation.no_input.ok()) {
      outcome.status = operation.no_input;
      return done(std::move(outcome));
    }
    for (int64_t i = 0; i < kElements; ++i) {
      reinterpret_cast<float*>(operation.output)[i] =
          reinterpret_cast<const float*>(operation.input)[i] + 1;
    }
    if (fails_after_) devices_.device(0).FailOnce(HostDevice::Step::kCopy);
    outcome.status = engine_says_;
    done(std::move(outcome));
  }

  HostStream stream_;
  Status engine_says_;
  bool fails_after_ = false;               // the copy of the result
  std::atomic<bool> throws_ = false;       // std::bad_alloc, when it gets an operation
  std::atomic<bool> throws_late_ = false;  // the same, when it hears of late ones
  Count submitted_at_;
  std::atomic<int> submitted_ = 0;
  Count all_begun_;
  Mutex late_mutex_;
  std::condition_variable late_changed_;
  std::vector<std::vector<std::string>> late_ BYTEPS_GUARDED_BY(late_mutex_);
  std::vector<wire::SlowCopy> copies_ BYTEPS_GUARDED_BY(late_mutex_);
  std::vector<std::string> warnings_ BYTEPS_GUARDED_BY(late_mutex_);
  std::atomic<int> gave_up_ = 0;
  std::string why_;
  HostDevices* host_ = nullptr;
  std::unique_ptr<device::Devices> found_ = Found();
  HostDevices& devices_ = *host_;
  StagedOperations staged_{
      [this]() -> Result<std::unique_ptr<device::Devices>> { return std::move(found_); },
      {[this](protocol::Operation operation, const StagedOperations::Done& done) {
         Submit(operation, done);
       },
       [this] { all_begun_.Add(); },
       [this](protocol::DeviceWaits waits) {
         if (throws_late_) throw std::bad_alloc();
         MutexLock lock(late_mutex_);
         late_.push_back(std::move(waits.late_inputs));
         copies_ = std::move(waits.copies);
         late_changed_.notify_all();
       },
       [this](const std::string& why) {
         why_ = why;
         ++gave_up_;
       },
       [this](const std::string& text) {
         MutexLock lock(late_mutex_);
         warnings_.push_back(text);
       }},
      3,
      seconds(1),
      milliseconds(100)};
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
};

TEST_F(StagedOperationsTest, AnOperationComesBehindItsStream) {
  stream_.Hold();
  StagedEnd end;
  ASSERT_TRUE(Start(end, &stream_).ok());
  EXPECT_TRUE(staged_.HasOpen(0));
  EXPECT_FALSE(staged_.HasOpen(1));
  std::fill_n(reinterpret_cast<float*>(input_), kElements, 4.0F);  // the stream writes it late
  EXPECT_EQ(submitted_, 0);
  stream_.LetGo();
  ASSERT_TRUE(end.Wait().ok());
  EXPECT_EQ(At(output_), 5);
  EXPECT_EQ(At(output_, 0), 5);
  EXPECT_EQ(At(input_), 4);
  EXPECT_EQ(gave_up_, 0);
}

TEST_F(StagedOperationsTest, TheLastOneThatBeginsIsTold) {
  stream_.Hold();
  HostStream other;
  StagedEnd ends[2];
  std::byte* const memory = Memory(0, 1);
  ASSERT_TRUE(Start(ends[0], &stream_).ok());
  ASSERT_TRUE(staged_.Start(Sum(memory, memory), kBytes, {}, {0, &other}, ends[1].done()).ok());
  ASSERT_TRUE(ends[1].Wait().ok());
  EXPECT_TRUE(staged_.HasUnbegun());
  EXPECT_EQ(all_begun_.now(), 0);
  stream_.LetGo();
  ASSERT_TRUE(ends[0].Wait().ok());
  EXPECT_FALSE(staged_.HasUnbegun());
  EXPECT_TRUE(all_begun_.Reaches(1)) << "another thread may tell it after the end";
}

TEST_F(StagedOperationsTest, WithoutAStreamAnOperationBeginsAtOnce) {
  StagedEnd end;
  ASSERT_TRUE(Start(end, std::nullopt).ok());
  ASSERT_TRUE(end.Wait().ok());
  EXPECT_EQ(At(output_), 1);
}

TEST_F(StagedOperationsTest, TheOutputMayBeTheInput) {
  StagedEnd end;
  ASSERT_TRUE(staged_.Start(Sum(input_, input_), kBytes, {}, {0, nullptr}, end.done()).ok());
  ASSERT_TRUE(end.Wait().ok());
  EXPECT_EQ(At(input_), 1);
}

TEST_F(StagedOperationsTest, AnErrorOfTheEngineChangesNoMemory) {
  engine_says_ = {StatusCode::kMismatch, "other ranks differ"};
  StagedEnd end;
  ASSERT_TRUE(Start(end, &stream_).ok());
  EXPECT_EQ(end.Wait().code(), StatusCode::kMismatch);
  EXPECT_EQ(At(output_), -1);
  EXPECT_EQ(gave_up_, 0);
}

TEST_F(StagedOperationsTest, ACopyThatFailsIsExchangedAsNoInput) {
  StagedEnd before;
  ASSERT_TRUE(Start(before, &stream_).ok());  // the lines have started
  ASSERT_TRUE(before.Wait().ok());
  devices_.device(0).FailOnce(HostDevice::Step::kCopy);
  StagedEnd end;
  ASSERT_TRUE(Start(end, &stream_).ok());
  const Status how = end.Wait();
  EXPECT_EQ(how.code(), StatusCode::kUnavailable);
  EXPECT_NE(how.message().find("rank 3 has no input for tensor 'w': a copy"), std::string::npos)
      << how.message();
  EXPECT_EQ(submitted_, 2) << "other ranks wait for this one";
  EXPECT_EQ(gave_up_, 0);
  StagedEnd after;
  ASSERT_TRUE(Start(after, &stream_).ok());
  EXPECT_TRUE(after.Wait().ok());
}

TEST_F(StagedOperationsTest, AResultThatCannotBeCopiedEndsThisRank) {
  StagedEnd before;
  ASSERT_TRUE(Start(before, &stream_).ok());  // the lines have started
  ASSERT_TRUE(before.Wait().ok());
  fails_after_ = true;
  StagedEnd end;
  ASSERT_TRUE(Start(end, &stream_).ok());
  const Status how = end.Wait();
  EXPECT_EQ(how.code(), StatusCode::kUnavailable);
  EXPECT_EQ(gave_up_, 1);
  EXPECT_EQ(why_, how.message());
}

TEST_F(StagedOperationsTest, AnInputThatIsNotReadyEndsAtTheLimit) {
  stream_.Hold();
  StagedEnd end;
  ASSERT_TRUE(Start(end, &stream_, milliseconds(50)).ok());
  const Status how = end.Wait();
  EXPECT_EQ(how.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(how.message().find("not ready on cuda:0"), std::string::npos) << how.message();
  EXPECT_EQ(submitted_, 1);
  EXPECT_EQ(gave_up_, 0);
  StagedEnd other;
  ASSERT_TRUE(Start(other, std::nullopt).ok());
  EXPECT_TRUE(other.Wait().ok());
  stream_.LetGo();
}

TEST_F(StagedOperationsTest, ALateInputIsTold) {
  stream_.Hold();
  StagedEnd end;
  ASSERT_TRUE(Start(end, &stream_).ok());
  {
    MutexLock lock(late_mutex_);
    const auto deadline = std::chrono::steady_clock::now() + kPatienceOfStaged;
    while (late_.empty() && lock.WaitUntil(late_changed_, deadline)) {
    }
    ASSERT_EQ(late_, (std::vector<std::vector<std::string>>{{"w"}}));
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_NE(warnings_[0].find("'w' has waited for its input on cuda:0 for "), std::string::npos)
        << warnings_[0];
  }
  stream_.LetGo();
  ASSERT_TRUE(end.Wait().ok());
  MutexLock lock(late_mutex_);
  const auto deadline = std::chrono::steady_clock::now() + kPatienceOfStaged;
  while (late_.size() < 2 && lock.WaitUntil(late_changed_, deadline)) {
  }
  EXPECT_TRUE(late_.back().empty());
}

TEST_F(StagedOperationsTest, ACopyThatStandsStillIsTold) {
  StagedEnd before;
  ASSERT_TRUE(Start(before, &stream_).ok());  // the lines have started
  ASSERT_TRUE(before.Wait().ok());
  devices_.device(0).copies_wait().Hold();
  StagedEnd end;
  ASSERT_TRUE(Start(end, &stream_).ok());
  {
    MutexLock lock(late_mutex_);
    const auto deadline = std::chrono::steady_clock::now() + kPatienceOfStaged;
    while (copies_.empty() && lock.WaitUntil(late_changed_, deadline)) {
    }
    ASSERT_EQ(copies_.size(), 1u);
    EXPECT_EQ(copies_[0].tensor, "w");
    EXPECT_EQ(copies_[0].device, "cuda:0");
    EXPECT_FALSE(copies_[0].to_device);
    EXPECT_GE(copies_[0].age_ms, 1000u);
    EXPECT_EQ(late_.back(), std::vector<std::string>{"w"}) << "its input is not there";
    ASSERT_EQ(warnings_.size(), 1u) << "once";
    EXPECT_NE(warnings_[0].find("'w' has waited for a copy from cuda:0 for "), std::string::npos)
        << warnings_[0];
  }
  devices_.device(0).copies_wait().LetGo();
  EXPECT_TRUE(end.Wait().ok());
}

TEST_F(StagedOperationsTest, StopEndsWhatWaits) {
  stream_.Hold();
  StagedEnd end;
  ASSERT_TRUE(Start(end, &stream_).ok());
  staged_.Stop();
  EXPECT_EQ(end.Wait(milliseconds(0)).code(), StatusCode::kShutdown) << "at once";
  EXPECT_EQ(Start(end, &stream_).code(), StatusCode::kShutdown);
  EXPECT_EQ(end.ends(), 1);
  EXPECT_EQ(gave_up_, 0);
  stream_.LetGo();
}

TEST_F(StagedOperationsTest, WhatCannotBeginIsRefused) {
  StagedEnd end;
  auto refused = [&](std::byte* memory, DevicePlace place) {
    Status status = staged_.Start(Sum(memory, memory), kBytes, {}, place, end.done());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_NE(refused(input_, {2, &stream_}).find("no device 2"), std::string::npos);
  EXPECT_NE(refused(Memory(1, 0), {0, &stream_}).find("no memory of this device"),
            std::string::npos);
  stream_.Capture(true);
  EXPECT_NE(refused(input_, {0, &stream_}).find("captured"), std::string::npos);
  EXPECT_EQ(end.ends(), 0);
  EXPECT_FALSE(staged_.HasOpen(0));
}

TEST_F(StagedOperationsTest, WithoutDevicesTheReasonIsTold) {
  int looks = 0;
  StagedOperations none(
      [&looks]() -> Result<std::unique_ptr<device::Devices>> {
        ++looks;
        return Status(StatusCode::kUnavailable, "there is no driver");
      },
      {}, 0, {});
  StagedEnd end;
  for (int i = 0; i < 2; ++i) {
    Status status = none.Start(Sum(input_, output_), kBytes, {}, {}, end.done());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("there is no driver"), std::string::npos);
  }
  EXPECT_EQ(looks, 1);
}

// Operations end exactly once, whenever the session stops.
TEST_F(StagedOperationsTest, StopAtAnyMomentEndsEachOperationOnce) {
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    HostStream stream;
    HostDevices* devices = nullptr;
    StagedOperations staged(
        [&]() -> Result<std::unique_ptr<device::Devices>> {
          auto made = std::make_unique<HostDevices>(1);
          devices = made.get();
          return std::unique_ptr<device::Devices>(std::move(made));
        },
        {[this](protocol::Operation operation, const StagedOperations::Done& done) {
           Submit(operation, done);
         },
         [] {}, [](const protocol::DeviceWaits&) {}, [](const std::string&) {},
         [](const std::string&) {}},
        0, {});
    ASSERT_TRUE(staged.Find().ok());
    std::vector<StagedEnd> ends(8);
    stream.Hold();
    for (StagedEnd& end : ends) {
      std::byte* const memory = devices->device(0).NewMemory(kBytes);
      ASSERT_TRUE(staged.Start(Sum(memory, memory), kBytes, {}, {0, &stream}, end.done()).ok());
    }
    std::thread user([&] { stream.LetGo(); });
    std::atomic<uint32_t> spins = random() % 2000;
    while (spins > 0) --spins;
    staged.Stop();
    EXPECT_TRUE(staged.WaitForEnd(std::chrono::steady_clock::now() + kPatienceOfStaged));
    user.join();
    for (StagedEnd& end : ends) {
      const StatusCode code = end.Wait().code();
      EXPECT_TRUE(code == StatusCode::kOk || code == StatusCode::kShutdown);
      EXPECT_EQ(end.ends(), 1);
    }
  }
}

// The driver gives no pinned memory, because the device has work that does not end.
TEST_F(StagedOperationsTest, NobodyWaitsLongForPinnedMemory) {
  devices_.device(0).pinned_waits().Hold();
  StagedEnd late;
  ASSERT_TRUE(Start(late, std::nullopt, milliseconds(20)).ok());
  const Status how = late.Wait();
  EXPECT_EQ(how.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(how.message().find("no memory for its copy from cuda:0 after"), std::string::npos)
      << how.message();
  StagedEnd end;
  ASSERT_TRUE(Start(end, &stream_).ok());
  ASSERT_TRUE(end.Wait().ok()) << "with ordinary memory";
  EXPECT_EQ(At(output_), 1);
  EXPECT_EQ(gave_up_, 0);
  devices_.device(0).pinned_waits().LetGo();
}

// The other ranks hear of the limit. Here the copy may still read the input.
TEST_F(StagedOperationsTest, ACopyThatDoesNotEndIsLeftAtTheLimit) {
  StagedEnd before;
  ASSERT_TRUE(Start(before, &stream_).ok());
  ASSERT_TRUE(before.Wait().ok());
  devices_.device(0).copies_wait().Hold();
  StagedEnd end;
  // Without a stream: the limit may come before a thread has looked at one.
  ASSERT_TRUE(Start(end, std::nullopt, milliseconds(20)).ok());
  ASSERT_TRUE(submitted_at_.Reaches(2));
  EXPECT_EQ(end.Wait(milliseconds(20)).code(), StatusCode::kInternal) << "not ended";
  devices_.device(0).copies_wait().LetGo();
  const Status how = end.Wait();
  EXPECT_EQ(how.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(how.message().find("its copy from cuda:0 had not ended after"), std::string::npos)
      << how.message();
  EXPECT_EQ(end.ends(), 1);
  EXPECT_EQ(gave_up_, 0);
  StagedEnd after;
  ASSERT_TRUE(Start(after, &stream_).ok());
  EXPECT_TRUE(after.Wait().ok());
}

TEST_F(StagedOperationsTest, ACopyUnderWayEndsBeforeTheSession) {
  devices_.device(0).copies_wait().Hold();
  StagedEnd end;
  ASSERT_TRUE(Start(end, &stream_).ok());
  while (devices_.device(0).copies() == 0) std::this_thread::yield();
  staged_.Stop();
  EXPECT_FALSE(staged_.WaitForEnd(std::chrono::steady_clock::now() + milliseconds(20)));
  devices_.device(0).copies_wait().LetGo();
  EXPECT_EQ(end.Wait().code(), StatusCode::kShutdown);
  EXPECT_EQ(end.ends(), 1);
}

// A user who has heard the end may remove the process set.
TEST_F(StagedOperationsTest, AnOperationWhoseEndWasHeardIsNotOpen) {
  std::atomic<int> open = 0;
  Count heard;
  ASSERT_TRUE(staged_
                  .Start(Sum(input_, output_), kBytes, {}, {0, &stream_},
                         [&](const protocol::Outcome&) {
                           open += staged_.HasOpen(0) ? 1 : 0;
                           heard.Add();
                         })
                  .ok());
  ASSERT_TRUE(heard.Reaches(1));
  EXPECT_EQ(open, 0);
}

// Without memory an operation is refused if that is possible, and else ends in an error.
TEST_F(StagedOperationsTest, WithoutMemoryAnOperationEndsAndTheProcessGoesOn) {
  protocol::Operation nothing = Sum(input_, input_);
  nothing.spec.shape = {0};
  StagedEnd refused;
  throws_ = true;
  const Status how = staged_.Start(nothing, 0, {}, {0, std::nullopt}, refused.done());
  EXPECT_EQ(how.code(), StatusCode::kExhausted);
  EXPECT_EQ(refused.ends(), 0);
  EXPECT_EQ(gave_up_, 0) << "the caller has the error";
  EXPECT_FALSE(staged_.HasUnbegun());
  EXPECT_FALSE(staged_.HasOpen(0));
  StagedEnd end;
  ASSERT_TRUE(Start(end, &stream_).ok());
  EXPECT_EQ(end.Wait().code(), StatusCode::kExhausted);
  EXPECT_EQ(gave_up_, 1) << "other ranks wait for this one's part";
  throws_ = false;
  StagedEnd after;
  ASSERT_TRUE(Start(after, &stream_).ok());
  EXPECT_TRUE(after.Wait().ok());
}

TEST_F(StagedOperationsTest, WithoutMemoryForAWarningTheWatchGoesOn) {
  throws_late_ = true;
  stream_.Hold();
  StagedEnd end;
  ASSERT_TRUE(Start(end, &stream_, milliseconds(1500)).ok());
  EXPECT_EQ(end.Wait().code(), StatusCode::kDeadlineExceeded);
  stream_.LetGo();
}

}  // namespace
}  // namespace byteps::session
