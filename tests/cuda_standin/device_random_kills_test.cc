// Steps of a machine whose GPUs sum among themselves, until one of three ranks is killed at any
// moment. It is a process of its own. No rank may keep a sum that another one does not get.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "byteps/device.h"
#include "tests/capi_job.h"
#include "tests/cuda_standin/child_for_test.h"
#include "tests/cuda_standin/device_rank_for_test.h"
#include "tests/cuda_standin/nvml_standin_for_test.h"
#include "tests/cuda_standin/standin_for_test.h"
#include "tests/cuda_standin/user_memory.h"
#include "tests/nccl_standin/standin_for_test.h"

namespace byteps::standin::random_kills {
namespace {

using byteps::testing::CApiJob;
using byteps::testing::Opened;

constexpr int kRanks = 3;
constexpr int kSurvivors = 2;
// gtest_repeat makes a campaign of it.
constexpr int kKills = 4;
constexpr int64_t kFloats = 1500001;  // two units
constexpr const char* kSettings = "STAND_IN_CHILD_SETTINGS";
constexpr const char* kShared = "STAND_IN_CHILD_SHARED";  // the descriptor of a Shared

// Says of each rank how many sums it has. All processes of a test share it.
struct Shared {
  std::array<std::atomic<int>, kRanks> sums{};
};

class SharedMemory {
 public:
  explicit SharedMemory(int file)
      : place_(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)) {
    if (place_ == MAP_FAILED) std::abort();
  }
  ~SharedMemory() { munmap(place_, sizeof(Shared)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // The file is all zeros, as is a Shared that has just begun.
  std::atomic<int>& sums(int rank) {
    return static_cast<Shared*>(place_)->sums[static_cast<size_t>(rank)];
  }

 private:
  void* const place_;
};

Bytes Filled(float value) {
  const std::vector<float> values(kFloats, value);
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Sums until a sum fails, and returns how that one ended.
pieces::End RunSteps(int rank, int device, byteps_session* session, std::atomic<int>& sums) {
  const UserContext context(device);
  UserMemory memory(kFloats * sizeof(float));
  for (int step = 1;; ++step) {
    memory.Set(Filled(static_cast<float>(step * (rank + 1))));
    byteps_request request = pieces::RequestOf(BYTEPS_SUM, memory.data(), memory.data(), kFloats);
    request.memory = BYTEPS_MEMORY_DEVICE;
    request.device = device;
    request.stream = BYTEPS_NO_STREAM;
    byteps_handle handle = 0;
    byteps_error error{};
    pieces::End end;
    end.code = byteps_start(session, &request, &handle, &error);
    end.text = error.message;
    if (end.code == BYTEPS_OK) end = pieces::WaitFor(session, handle);
    if (end.code != BYTEPS_OK) return end;
    EXPECT_TRUE(memory.Read() == Filled(static_cast<float>(step * 6))) << "step " << step;
    sums = step;
  }
}

// The process that is killed; the test below starts it.
TEST(RankKilledAtAnyMoment, DISABLED_Child) {
  const char* const settings = std::getenv(kSettings);
  if (settings == nullptr) return;
  stand_in_first_gpu(kSurvivors);
  SharedMemory shared(std::atoi(std::getenv(kShared)));
  byteps_session* const session = Opened(SettingsIn(settings));
  RunSteps(kRanks - 1, 0, session, shared.sums(kRanks - 1));
  byteps_close(session);
}

class KilledAtAnyMoment : public ::testing::Test {
 protected:
  KilledAtAnyMoment() {
    stand_in_nvml_reset();
    stand_in_nvml_machine(kRanks, 0, 0);
  }
  ~KilledAtAnyMoment() override { stand_in_nvml_reset(); }

  // Kills rank 2 `delay_us` after its first sum.
  void KillOnce(int delay_us) {
    const NothingLeft nothing_left;
    const NoGroupsLeft no_groups_left;
    CApiJob job({1, kRanks, false},
                {"cuda_library=" + LibraryPath(), "nvml_library=" + NvmlPath(),
                 "nccl_library=" + NcclPath(), "device_sums=nccl", "local_reduce=1"});
    const int file = memfd_create("sums", 0);
    ASSERT_EQ(ftruncate(file, sizeof(Shared)), 0);
    SharedMemory shared(file);
    const pid_t child = StartTest(
        "RankKilledAtAnyMoment.DISABLED_Child",
        {{kSettings, LinesOf(job.WorkerSettings(kRanks - 1))}, {kShared, std::to_string(file)}});
    close(file);
    std::array<pieces::End, kSurvivors> ends;
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < kSurvivors; ++rank) {
      ranks.emplace_back([&, rank] {
        byteps_session* const session = Opened(job.WorkerSettings(rank));
        ends[static_cast<size_t>(rank)] = RunSteps(rank, rank, session, shared.sums(rank));
        byteps_close(session);
      });
    }
    EXPECT_TRUE(pieces::Await([&] { return shared.sums(kRanks - 1) > 0; }));
    const timespec delay{0, delay_us * 1000L};
    ppoll(nullptr, 0, &delay, nullptr);  // any moment will do
    ::kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    for (std::thread& one : ranks) one.join();
    for (const pieces::End& end : ends) {
      EXPECT_EQ(end.code, BYTEPS_PEER_LOST) << end.text;
      EXPECT_NE(end.text.find("worker 2"), std::string::npos) << end.text;
    }
    EXPECT_EQ(shared.sums(0), shared.sums(1)) << "one rank has a sum that the other did not get";
    EXPECT_LE(shared.sums(2), shared.sums(0)) << "the killed rank had a sum that the others lack";
    EXPECT_GT(nccl_stand_in_count().collectives, 0u) << "GPUs sum among themselves";
  }
};

TEST_F(KilledAtAnyMoment, LeavesTheOthersWithTheSameSums) {
  std::random_device random;
  for (int i = 0; i < kKills; ++i) {
    const int delay_us = static_cast<int>(random() % 60000);
    SCOPED_TRACE("killed after " + std::to_string(delay_us) + " us");
    KillOnce(delay_us);
  }
}

}  // namespace
}  // namespace byteps::standin::random_kills
