// Tests operations in a device's memory that the engine's lanes copy piece by piece.
#include <chrono>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/count_for_test.h"
#include "src/base/thread_annotations.h"
#include "src/device/host/host_devices.h"
#include "src/session/device/staged_operations.h"

namespace byteps::session::by_pieces {
namespace {

using device::host::HostDevice;
using device::host::HostDevices;
using device::host::HostStream;

constexpr int64_t kElements = 50000;
constexpr size_t kBytes = kElements * sizeof(float);

class ByPiecesTest : public ::testing::Test {
 protected:
  explicit ByPiecesTest(Duration pinned_limit = kPatience) : pinned_limit_(pinned_limit) {}
  ~ByPiecesTest() override {
    staged_.Stop();
    EXPECT_TRUE(staged_.WaitForEnd(std::chrono::steady_clock::now() + kPatience));
  }

  protocol::Operation Sum(int64_t elements = kElements) const {
    protocol::Operation operation;
    operation.name = "w";
    operation.spec.op = wire::Op::kSum;
    operation.spec.dtype = DataType::kFloat32;
    operation.spec.shape = {elements};
    operation.input = operation.output = memory_;
    return operation;
  }
  Status Start(const protocol::Operation& operation, std::optional<void*> stream = {},
               Duration limit = {}) {
    const auto bytes = static_cast<uint64_t>(operation.spec.shape[0]) * sizeof(float);
    return staged_.Start(operation, bytes, limit, {0, stream},
                         [this](const protocol::Outcome& outcome) {
                           status_ = outcome.status;
                           ended_.Add();
                         });
  }
  // Returns the operation that the engine has got last.
  const protocol::Operation& Submitted(int count = 1) {
    EXPECT_TRUE(submitted_.Reaches(count));
    return engine_.back().first;
  }
  void EndInEngine(const Status& how = Status::Ok()) {
    protocol::Outcome outcome;
    outcome.status = how;
    engine_.back().second(std::move(outcome));
  }

  const Duration pinned_limit_;
  HostDevices* devices_ = nullptr;
  HostStream stream_;
  std::deque<std::pair<protocol::Operation, StagedOperations::Done>> engine_;
  Count submitted_;
  Count ended_;
  Status status_;
  Mutex told_mutex_;
  Count told_;
  protocol::DeviceWaits late_ BYTEPS_GUARDED_BY(told_mutex_);
  std::vector<std::string> warnings_ BYTEPS_GUARDED_BY(told_mutex_);
  StagedOperations staged_{[this]() -> Result<std::unique_ptr<device::Devices>> {
                             auto made = std::make_unique<HostDevices>(1);
                             devices_ = made.get();
                             return std::unique_ptr<device::Devices>(std::move(made));
                           },
                           {[this](protocol::Operation operation, StagedOperations::Done done) {
                              engine_.emplace_back(std::move(operation), std::move(done));
                              submitted_.Add();
                            },
                            [] {},
                            [this](protocol::DeviceWaits waits) {
                              MutexLock lock(told_mutex_);
                              late_ = std::move(waits);
                              told_.Add();
                            },
                            [](const std::string&) {},
                            [this](const std::string& text) {
                              MutexLock lock(told_mutex_);
                              warnings_.push_back(text);
                            }},
                           3,
                           seconds(1),
                           pinned_limit_,
                           [](device::DeviceLines& lines) { return lines.pieces.Prepare(); }};
  std::byte* const memory_ = staged_.Find().ok() ? devices_->device(0).NewMemory(kBytes) : nullptr;
};

TEST_F(ByPiecesTest, ALargeReductionGoesToTheEngineAsItIs) {
  stream_.Hold();
  ASSERT_TRUE(Start(Sum(), &stream_).ok());
  EXPECT_EQ(submitted_.now(), 0);
  EXPECT_TRUE(staged_.HasUnbegun());
  stream_.LetGo();
  const protocol::Operation& submitted = Submitted();
  EXPECT_EQ(submitted.memory, Memory::kDevice);
  EXPECT_EQ(submitted.input, memory_);
  ASSERT_NE(submitted.device.lines, nullptr);
  EXPECT_GT(submitted.device.lines->pieces.free_bytes(), 0u) << "the lanes have pinned memory";
  EXPECT_EQ(devices_->device(0).copies(), 0u);
  EXPECT_TRUE(staged_.HasOpen(0));
  EndInEngine();
  ASSERT_TRUE(ended_.Reaches(1));
  EXPECT_TRUE(status_.ok());
}

TEST_F(ByPiecesTest, WhatTheLanesDoNotKnowGoesWhole) {
  protocol::Operation broadcast = Sum();
  broadcast.spec.op = wire::Op::kBroadcast;
  protocol::Operation kept = Sum();
  kept.spec.atomic = true;
  const protocol::Operation small = Sum(StagedOperations::kWholeBytesMax / sizeof(float));
  int count = 0;
  for (const protocol::Operation& one : {broadcast, kept, small}) {
    ASSERT_TRUE(Start(one).ok());
    const protocol::Operation& submitted = Submitted(++count);
    EXPECT_EQ(submitted.memory, Memory::kHost) << count;
    EXPECT_NE(submitted.input, memory_) << count;
    EndInEngine();
    ASSERT_TRUE(ended_.Reaches(count));
  }
  protocol::Operation apart = Sum();
  apart.spec.atomic = true;
  apart.output = devices_->device(0).NewMemory(kBytes);
  ASSERT_TRUE(Start(apart).ok());
  EXPECT_EQ(Submitted(++count).memory, Memory::kDevice);
  EndInEngine();
}

// The memory is the user's again when no copy touches it.
TEST_F(ByPiecesTest, TheEndWaitsForCopiesThatLanesHaveAbandoned) {
  ASSERT_TRUE(Start(Sum()).ok());
  const protocol::DeviceMemory at = Submitted().device;
  devices_->device(0).copies_wait().Hold();
  std::byte to{};
  std::byte from{};
  at.lines->down.Copy(at.owner, &to, memory_, 1, [](const Status&) {});
  at.lines->up.Copy(at.owner, memory_ + 1, &from, 1, [](const Status&) {});
  EndInEngine({StatusCode::kDeadlineExceeded, "too late"});
  EXPECT_EQ(ended_.now(), 0);
  EXPECT_FALSE(staged_.WaitForEnd(std::chrono::steady_clock::now() + milliseconds(20)));
  devices_->device(0).copies_wait().LetGo();
  ASSERT_TRUE(ended_.Reaches(1));
  EXPECT_EQ(status_.code(), StatusCode::kDeadlineExceeded);
}

// The engine does not look at the time of copies, so the session does.
TEST_F(ByPiecesTest, ACopyOfTheEngineThatStandsStillIsTold) {
  ASSERT_TRUE(Start(Sum()).ok());
  const protocol::DeviceMemory at = Submitted().device;
  devices_->device(0).copies_wait().Hold();
  std::byte to{};
  at.lines->up.Copy(at.owner, memory_, &to, 1, [](const Status&) {});
  ASSERT_TRUE(told_.Reaches(2)) << "again and again, because its age grows";
  {
    MutexLock lock(told_mutex_);
    ASSERT_EQ(late_.copies.size(), 1u);
    EXPECT_EQ(late_.copies[0].tensor, "w");
    EXPECT_EQ(late_.copies[0].device, "cuda:0");
    EXPECT_TRUE(late_.copies[0].to_device);
    EXPECT_GT(late_.copies[0].age_ms, 1000u);
    EXPECT_TRUE(late_.late_inputs.empty()) << "it has begun";
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_NE(warnings_[0].find("'w' has waited for a copy to cuda:0 for "), std::string::npos)
        << warnings_[0];
  }
  int told = told_.now();
  devices_->device(0).copies_wait().LetGo();
  auto has_late_copies = [&] {
    MutexLock lock(told_mutex_);
    return !late_.copies.empty();
  };
  while (has_late_copies()) ASSERT_TRUE(told_.Reaches(++told)) << "it has ended";
  EndInEngine();
  ASSERT_TRUE(ended_.Reaches(1));
}

TEST_F(ByPiecesTest, AnInputThatIsLateIsSubmittedWithItsError) {
  stream_.Hold();
  ASSERT_TRUE(Start(Sum(), &stream_, milliseconds(20)).ok());
  const Status& no_input = Submitted().no_input;
  EXPECT_EQ(no_input.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(no_input.message().find("rank 3 has no input for tensor 'w': it was not ready"), 0u)
      << no_input.message();
  EndInEngine(no_input);
  ASSERT_TRUE(ended_.Reaches(1));
  stream_.LetGo();
}

TEST_F(ByPiecesTest, StopEndsWhatWaits) {
  stream_.Hold();
  ASSERT_TRUE(Start(Sum(), &stream_).ok());
  staged_.Stop();
  EXPECT_EQ(ended_.now(), 1) << "at once";
  EXPECT_EQ(status_.code(), StatusCode::kShutdown);
  EXPECT_EQ(submitted_.now(), 0);
  stream_.LetGo();
}

class ByPiecesSoonTest : public ByPiecesTest {
 protected:
  ByPiecesSoonTest() : ByPiecesTest(kSoon) {}
  static constexpr auto kSoon = milliseconds(300);
};

// The driver may give pinned memory late or never.
TEST_F(ByPiecesSoonTest, NobodyWaitsLongForPinnedMemory) {
  devices_->device(0).pinned_waits().Hold();
  const auto before = std::chrono::steady_clock::now();
  ASSERT_TRUE(Start(Sum()).ok());
  EXPECT_EQ(Submitted().memory, Memory::kDevice);
  EXPECT_GE(std::chrono::steady_clock::now() - before, kSoon);
  EndInEngine();
  ASSERT_TRUE(ended_.Reaches(1));
  devices_->device(0).pinned_waits().LetGo();
}

// Otherwise each operation of a step would wait for the limit, those that go whole among them.
TEST_F(ByPiecesSoonTest, OnlyTheFirstOneWaitsForADriverThatGivesNoPinnedMemory) {
  devices_->device(0).pinned_waits().Hold();
  constexpr int kMany = 100;
  auto before = std::chrono::steady_clock::now();
  for (int i = 1; i <= kMany; ++i) {
    ASSERT_TRUE(Start(i % 2 == 1 ? Sum() : Sum(100)).ok());
    EXPECT_EQ(Submitted(i).memory, i % 2 == 1 ? Memory::kDevice : Memory::kHost);
    EndInEngine();
    ASSERT_TRUE(ended_.Reaches(i));
    if (i == 1) before = std::chrono::steady_clock::now();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - before, kMany * kSoon / 2);
  devices_->device(0).pinned_waits().LetGo();
}

TEST_F(ByPiecesTest, WithoutPinnedMemoryTheLanesUseOrdinaryMemory) {
  devices_->device(0).RefusePinned();
  ASSERT_TRUE(Start(Sum()).ok());
  const protocol::DeviceMemory at = Submitted().device;
  EXPECT_EQ(at.lines->pieces.free_bytes(), 0u);
  EXPECT_TRUE(at.lines->pieces.Prepare()) << "there is nothing to wait for";
  EndInEngine();
  ASSERT_TRUE(ended_.Reaches(1));
}

}  // namespace
}  // namespace byteps::session::by_pieces
