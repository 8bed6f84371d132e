// The conformance suite of groups, through NCCL's names over the stand-in.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

#include "src/base/count_for_test.h"
#include "src/device/cuda/cuda_devices.h"
#include "src/device/group_conformance.h"
#include "src/device/group_for_test.h"
#include "src/device/nccl/nccl_groups.h"
#include "tests/cuda_standin/standin_for_test.h"
#include "tests/nccl_standin/standin_for_test.h"

namespace byteps::device {
namespace {

class StandInGroupUser final : public GroupUser {
 public:
  explicit StandInGroupUser(uint64_t delay_us_max) {
    stand_in_delay(1, delay_us_max);
    nccl_stand_in_share_gpus();  // a process has two, and groups have up to three ranks
    Result<std::unique_ptr<Devices>> devices = cuda::FindDevices(standin::LibraryPath());
    EXPECT_TRUE(devices.ok()) << devices.status().ToString();
    devices_ = std::move(devices).value();
    Result<std::unique_ptr<Groups>> groups = nccl::FindGroups(standin::NcclPath());
    EXPECT_TRUE(groups.ok()) << groups.status().ToString();
    groups_ = std::move(groups).value();
  }
  // Waits for lines whose threads stood still: they share devices and groups.
  ~StandInGroupUser() override {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while ((devices_.use_count() > 1 || groups_.use_count() > 1) &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    for (CUdeviceptr memory : memory_) EXPECT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
  }

  std::shared_ptr<Groups> groups() override { return groups_; }
  std::shared_ptr<Device> device(uint32_t rank) override {
    return {devices_, devices_->Open(NumberOf(rank)).value()};
  }
  std::byte* NewMemory(uint32_t rank, size_t bytes) override {
    CUdeviceptr memory = 0;
    std::thread([&] {  // a thread keeps its context
      const standin::UserContext of_rank(NumberOf(rank));
      EXPECT_EQ(cuMemAlloc_v2(&memory, bytes), CUDA_SUCCESS);
    })
        .join();
    memory_.push_back(memory);
    return reinterpret_cast<std::byte*>(memory);
  }
  void Write(std::byte* memory, const std::vector<std::byte>& bytes) override {
    std::ranges::copy(bytes, BytesOf(memory));
  }
  std::vector<std::byte> Read(const std::byte* memory, size_t bytes) override {
    std::vector<std::byte> read(bytes);
    std::copy_n(BytesOf(memory), bytes, read.data());
    return read;
  }
  void Break() override { nccl_stand_in_break(6); }
  void FailWait() override { stand_in_fail("cuEventSynchronize", 1, CUDA_ERROR_INVALID_VALUE, 0); }
  void HoldAborts() override { nccl_stand_in_hold("ncclCommAbort"); }
  void LetAbortsGo() override { nccl_stand_in_let_go("ncclCommAbort"); }
  int members() override { return nccl_stand_in_count().communicators; }
  int begun() override { return static_cast<int>(nccl_stand_in_count().begun); }

 private:
  static int NumberOf(uint32_t rank) { return static_cast<int>(rank % STAND_IN_DEVICES); }
  static std::byte* BytesOf(const std::byte* memory) {
    auto* const bytes = stand_in_bytes(reinterpret_cast<CUdeviceptr>(memory));
    return reinterpret_cast<std::byte*>(bytes);
  }

  const standin::NothingLeft nothing_left_;
  const standin::NoGroupsLeft no_groups_left_;
  const standin::UserContext context_;
  std::shared_ptr<Devices> devices_;  // shared with lines whose threads stand still; so the groups
  std::shared_ptr<Groups> groups_;
  std::vector<CUdeviceptr> memory_;
};

INSTANTIATE_TEST_SUITE_P(
    StandIn, GroupConformance,
    ::testing::Values(GroupKind{"at once", [] { return std::make_unique<StandInGroupUser>(0); }},
                      GroupKind{"late", [] { return std::make_unique<StandInGroupUser>(200); }}));

// NCCL itself, and the driver below it, may stand still in any call.
class StandingGroups : public ::testing::Test {
 protected:
  void AwaitHeld(const char* function) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (nccl_stand_in_is_held(function) == 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_NE(nccl_stand_in_is_held(function), 0);
  }
  StandInGroupUser user_{0};
};

TEST_F(StandingGroups, AnInitialisationThatDoesNotReturnEndsTheMeetingAndTheLine) {
  nccl_stand_in_hold("ncclCommInitRankConfig");
  // The line is inside the call before it gives the meeting up, however late its thread begins.
  const GroupLine::Limits limits{
      .meet = seconds(2), .abort = milliseconds(60), .end = milliseconds(60)};
  GroupMember alone(user_.device(0), user_.groups(), user_.groups()->NewId().value(), 0, 1, limits);
  AwaitHeld("ncclCommInitRankConfig");
  ASSERT_TRUE(alone.met.Once());
  EXPECT_EQ(alone.met.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(alone.warned.Once()) << "an abort would be a second call";
  alone.line.reset();
  EXPECT_EQ(user_.members(), 0);
  nccl_stand_in_let_go("ncclCommInitRankConfig");
  while (stand_in_count().streams > 0) std::this_thread::yield();
  EXPECT_EQ(user_.members(), 0) << "the thread that was left behind has aborted its group";
}

TEST_F(StandingGroups, AnAbortWaitsForACallThatStandsStill) {
  const GroupLine::Limits limits{.abort = milliseconds(60)};
  GroupMember alone(user_.device(0), user_.groups(), user_.groups()->NewId().value(), 0, 1, limits);
  ASSERT_TRUE(alone.met.Once());
  std::byte* const memory = user_.NewMemory(0, 64);
  nccl_stand_in_hold("ncclGroupEnd");
  Heard done;
  alone.line->Gather(memory, {{0, 0, 64}}, done.AsDone());
  AwaitHeld("ncclGroupEnd");
  Heard next;
  alone.line->Gather(memory, {{0, 0, 64}}, next.AsDone());
  alone.line->Abort({StatusCode::kPeerLost, "a rank is lost"});
  EXPECT_TRUE(next.Once()) << "it has not begun";
  EXPECT_TRUE(alone.warned.Once());
  EXPECT_EQ(done.now(), 0);
  nccl_stand_in_let_go("ncclGroupEnd");
  ASSERT_TRUE(done.Once());
  EXPECT_EQ(done.status().code(), StatusCode::kPeerLost);
}

// A kernel may have ended because of an error, so a launch whose event is reached may have failed.
TEST_F(StandingGroups, AnErrorBehindTheEndOfALaunchIsNotOverlooked) {
  GroupMember alone(user_.device(0), user_.groups(), user_.groups()->NewId().value(), 0, 1);
  ASSERT_TRUE(alone.met.Once());
  std::byte* const memory = user_.NewMemory(0, 64);
  Heard done;
  std::thread([&] {
    stand_in_lock();  // the line cannot record its event
    alone.line->Gather(memory, {{0, 0, 64}}, done.AsDone());
    while (user_.begun() == 0) std::this_thread::yield();
    user_.Break();
    stand_in_unlock();
  }).join();
  ASSERT_TRUE(done.Once());
  EXPECT_EQ(done.status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(alone.broken.Once());
}

// The driver's lock holds up the threads of the line, and nobody who calls it.
TEST_F(StandingGroups, ABlockedDriverHoldsNoCallerUp) {
  GroupMember alone(user_.device(0), user_.groups(), user_.groups()->NewId().value(), 0, 1);
  ASSERT_TRUE(alone.met.Once());
  std::byte* const memory = user_.NewMemory(0, 64);
  Heard done;
  std::thread([&] {  // the thread of a lock is not the one that gives the work
    stand_in_lock();
    std::thread([&] {
      alone.line->Gather(memory, {{0, 0, 64}}, done.AsDone());
      EXPECT_FALSE(done.Once(milliseconds(50)));
    }).join();
    stand_in_unlock();
  })
      .join();
  ASSERT_TRUE(done.Once());
  EXPECT_TRUE(done.status().ok()) << done.status().ToString();
}

}  // namespace
}  // namespace byteps::device
