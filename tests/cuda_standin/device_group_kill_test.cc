// A rank of a machine that is killed, or stands still, in a launch of its group of GPUs. It is a
// process of its own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "byteps/device.h"
#include "tests/capi_job.h"
#include "tests/cuda_standin/child_for_test.h"
#include "tests/cuda_standin/nvml_standin_for_test.h"
#include "tests/cuda_standin/standin_for_test.h"
#include "tests/cuda_standin/user_memory.h"
#include "tests/nccl_standin/standin_for_test.h"

namespace byteps::standin::killed_in_groups {
namespace {

using byteps::testing::CApiJob;
using byteps::testing::Opened;

constexpr int64_t kFloats = 300000;
constexpr const char* kSettings = "STAND_IN_CHILD_SETTINGS";
constexpr const char* kPipe = "STAND_IN_CHILD_PIPE";
constexpr const char* kHeld = "STAND_IN_CHILD_HELD";  // the call in the middle of which it stops

byteps_handle StartSum(byteps_session* session, const UserMemory& memory) {
  byteps_request request{};
  request.name = "w";
  request.op = BYTEPS_SUM;
  request.dtype = BYTEPS_FLOAT32;
  request.shape = &kFloats;
  request.dimensions = 1;
  request.input = request.output = memory.data();
  request.memory = BYTEPS_MEMORY_DEVICE;
  request.stream = BYTEPS_NO_STREAM;
  byteps_handle handle = 0;
  byteps_error error{};
  EXPECT_EQ(byteps_start(session, &request, &handle, &error), BYTEPS_OK) << error.message;
  return handle;
}

// The process that is killed; the test below starts it.
TEST(KilledRankOfAGroup, DISABLED_Child) {
  const char* const settings = std::getenv(kSettings);
  if (settings == nullptr) return;
  stand_in_first_gpu(1);
  byteps_session* const session = Opened(SettingsIn(settings));
  const UserContext context;
  const UserMemory memory(kFloats * sizeof(float));
  const char* const held = std::getenv(kHeld);
  nccl_stand_in_hold(held);
  StartSum(session, memory);
  while (nccl_stand_in_is_held(held) == 0) std::this_thread::yield();
  EXPECT_EQ(write(std::atoi(std::getenv(kPipe)), "x", 1), 1);
  for (;;) pause();
}

// Lets this process be rank 0, and rank 1 another one that is killed in the middle of a launch.
// With servers, or without.
class KilledInALaunch : public ::testing::TestWithParam<bool> {
 protected:
  // `silence`: settings of how long the job waits for a process that is silent.
  explicit KilledInALaunch(const std::vector<std::string>& silence = {})
      : job_({1, 2, GetParam()}, Settings(silence)) {
    stand_in_nvml_reset();
    stand_in_nvml_machine(2, 0, 0);
  }
  ~KilledInALaunch() override {
    for (std::thread& one : services_) one.join();
    stand_in_nvml_reset();
  }
  static std::vector<std::string> Settings(const std::vector<std::string>& silence) {
    std::vector<std::string> all = {"cuda_library=" + LibraryPath(), "nvml_library=" + NvmlPath(),
                                    "nccl_library=" + NcclPath(), "device_sums=nccl",
                                    "local_reduce=1"};
    all.insert(all.end(), silence.begin(), silence.end());
    return all;
  }
  // The job ends with a loss, and the services say so.
  void StartServices() {
    for (const char* role : {"scheduler", "server"}) {
      std::vector<std::string> settings = job_.WorkerSettings(0);
      for (std::string& one : settings) {
        if (one == "role=worker") one = std::string("role=") + role;
      }
      services_.emplace_back([settings] {
        std::vector<const char*> texts;
        for (const std::string& one : settings) texts.push_back(one.c_str());
        EXPECT_NE(byteps_serve(texts.data(), texts.size(), nullptr), BYTEPS_INVALID_ARGUMENT);
      });
    }
  }
  void Run(bool is_frozen_first) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = StartTest("KilledRankOfAGroup.DISABLED_Child",
                                  {{kSettings, LinesOf(job_.WorkerSettings(1))},
                                   {kPipe, std::to_string(ends[1])},
                                   {kHeld, GetParam() ? "ncclReduce" : "ncclAllReduce"}});
    close(ends[1]);
    if (GetParam()) StartServices();  // they read the environment, which StartTest changes
    byteps_session* const session = Opened(job_.WorkerSettings(0));
    {
      const UserContext context;
      const UserMemory memory(kFloats * sizeof(float));
      const byteps_handle handle = StartSum(session, memory);
      pollfd in_the_middle{ends[0], POLLIN, 0};
      EXPECT_EQ(poll(&in_the_middle, 1, 60000), 1);
      EXPECT_NE(in_the_middle.revents & POLLIN, 0) << "the child could not begin";
      byteps_error error{};
      if (is_frozen_first) {
        ::kill(child, SIGSTOP);
        EXPECT_EQ(byteps_wait(session, handle, 3000, &error), BYTEPS_DEADLINE_EXCEEDED)
            << "a launch uses the memory: " << error.message;
      }
      ::kill(child, SIGKILL);
      const byteps_code code = byteps_wait(session, handle, 60000, &error);
      EXPECT_TRUE(code == BYTEPS_PEER_LOST || (is_frozen_first && code == BYTEPS_EVICTED))
          << code << ": " << error.message;
      EXPECT_NE(std::string(error.message).find("worker 1"), std::string::npos) << error.message;
      byteps_release(session, handle);
    }
    waitpid(child, nullptr, 0);
    close(ends[0]);
    byteps_close(session);
  }

  const NothingLeft nothing_left_;
  const NoGroupsLeft no_groups_left_;
  std::vector<std::thread> services_;
  CApiJob job_;
};

class FrozenInALaunch : public KilledInALaunch {
 protected:
  FrozenInALaunch() : KilledInALaunch({"heartbeat_timeout_ms=1500", "eviction_timeout_ms=1500"}) {}
};

std::string NameOf(const ::testing::TestParamInfo<bool>& one) {
  return one.param ? "Servers" : "NoServers";
}
INSTANTIATE_TEST_SUITE_P(All, KilledInALaunch, ::testing::Bool(), NameOf);
INSTANTIATE_TEST_SUITE_P(All, FrozenInALaunch, ::testing::Bool(), NameOf);

TEST_P(KilledInALaunch, IsNamedToTheOthersWhoLeaveNothing) { Run(false); }

// The others abort the launch, but the abort waits for the frozen rank. So the operation stays
// open, because the GPU may still use its memory, until that process ends.
TEST_P(FrozenInALaunch, HoldsTheLaunchUntilItEnds) { Run(true); }

}  // namespace
}  // namespace byteps::standin::killed_in_groups
