// A rank of a machine that is killed, or stands still, in a launch of its group of GPUs, or while
// the others leave it. It is a process of its own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <latch>
#include <ostream>
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
constexpr const char* kGpu = "STAND_IN_CHILD_GPU";
constexpr const char* kHeld = "STAND_IN_CHILD_HELD";  // the call in the middle of which it stops

constexpr const char* kLeaves = "ncclCommFinalize";

byteps_handle StartSum(byteps_session* session, const UserMemory& memory, int device) {
  byteps_request request{};
  request.name = "w";
  request.op = BYTEPS_SUM;
  request.dtype = BYTEPS_FLOAT32;
  request.shape = &kFloats;
  request.dimensions = 1;
  request.input = request.output = memory.data();
  request.memory = BYTEPS_MEMORY_DEVICE;
  request.device = device;
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
  stand_in_first_gpu(std::atoi(std::getenv(kGpu)));
  byteps_session* const session = Opened(SettingsIn(settings));
  const UserContext context;
  const UserMemory memory(kFloats * sizeof(float));
  const char* const held = std::getenv(kHeld);
  nccl_stand_in_hold(held);
  const byteps_handle handle = StartSum(session, memory, 0);
  if (std::string(held) == kLeaves) {
    EXPECT_EQ(byteps_wait(session, handle, 60000, nullptr), BYTEPS_OK);
  }
  while (nccl_stand_in_is_held(held) == 0) std::this_thread::yield();
  EXPECT_EQ(write(std::atoi(std::getenv(kPipe)), "x", 1), 1);
  for (;;) pause();
}

struct Kind {
  const char* name;
  int ranks;  // in one group
  bool has_server;
};
void PrintTo(const Kind& kind, std::ostream* to) { *to << kind.name; }

// Lets this process have all ranks but the last one, which is another process.
class KilledRank : public ::testing::TestWithParam<Kind> {
 protected:
  // `silence`: settings of how long the job waits for a process that is silent.
  explicit KilledRank(const std::vector<std::string>& silence = {})
      : job_({1, GetParam().ranks, GetParam().has_server}, Settings(silence)) {
    stand_in_nvml_reset();
    stand_in_nvml_machine(static_cast<unsigned>(GetParam().ranks), 0, 0);
  }
  ~KilledRank() override {
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
  // Starts the last rank, which stops in the middle of a call of NCCL, and the services.
  void StartChild(const char* held) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(pipe(ends), 0);
    child_ = StartTest("KilledRankOfAGroup.DISABLED_Child",
                       {{kSettings, LinesOf(job_.WorkerSettings(last_))},
                        {kGpu, std::to_string(last_)},
                        {kPipe, std::to_string(ends[1])},
                        {kHeld, held}});
    close(ends[1]);
    held_ = ends[0];
    if (GetParam().has_server)
      StartServices();  // they read the environment, which StartTest changes
  }
  void AwaitHeld() {
    pollfd in_the_middle{held_, POLLIN, 0};
    EXPECT_EQ(poll(&in_the_middle, 1, 60000), 1);
    EXPECT_NE(in_the_middle.revents & POLLIN, 0) << "the child could not begin";
  }
  void Kill() { ::kill(child_, SIGKILL); }
  void EndChild() {
    waitpid(child_, nullptr, 0);
    close(held_);
  }

  const int last_ = GetParam().ranks - 1;
  pid_t child_ = -1;
  int held_ = -1;  // readable when the child is in the middle of the call
  const NothingLeft nothing_left_;
  const NoGroupsLeft no_groups_left_;
  std::vector<std::thread> services_;
  CApiJob job_;
};

// The last rank is killed in the middle of a launch.
class KilledInALaunch : public KilledRank {
 protected:
  using KilledRank::KilledRank;
  void Run(bool is_frozen_first) {
    StartChild(GetParam().has_server ? "ncclReduce" : "ncclAllReduce");
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < last_; ++rank) {
      ranks.emplace_back([this, rank, is_frozen_first] { RunRank(rank, is_frozen_first); });
    }
    AwaitHeld();
    if (is_frozen_first) {
      ::kill(child_, SIGSTOP);
      is_frozen_.count_down();
      have_waited_.wait();
    }
    Kill();
    for (std::thread& one : ranks) one.join();
    EndChild();
  }
  void RunRank(int rank, bool is_frozen_first) {
    byteps_session* const session = Opened(job_.WorkerSettings(rank));
    {
      const UserContext context(rank);
      const UserMemory memory(kFloats * sizeof(float));
      const byteps_handle handle = StartSum(session, memory, rank);
      byteps_error error{};
      if (is_frozen_first) {
        is_frozen_.wait();
        EXPECT_EQ(byteps_wait(session, handle, 3000, &error), BYTEPS_DEADLINE_EXCEEDED)
            << "a launch uses the memory: " << error.message;
        have_waited_.count_down();
      }
      const byteps_code code = byteps_wait(session, handle, 60000, &error);
      EXPECT_TRUE(code == BYTEPS_PEER_LOST || (is_frozen_first && code == BYTEPS_EVICTED))
          << code << ": " << error.message;
      const std::string lost = "worker " + std::to_string(last_);
      EXPECT_NE(std::string(error.message).find(lost), std::string::npos) << error.message;
      byteps_release(session, handle);
    }
    byteps_close(session);
  }

  std::latch is_frozen_{1};
  std::latch have_waited_{last_};
};

// All ranks have a sum, and all but the last one are in byteps_close: their groups wait for the
// last rank.
class KilledBesideAClose : public KilledRank {
 protected:
  void SumAndClose(int rank) {
    byteps_session* const session = Opened(job_.WorkerSettings(rank));
    {
      const UserContext context(rank);
      const UserMemory memory(kFloats * sizeof(float));
      const byteps_handle handle = StartSum(session, memory, rank);
      EXPECT_EQ(byteps_wait(session, handle, 60000, nullptr), BYTEPS_OK);
      byteps_release(session, handle);
    }
    byteps_close(session);
  }
};

class FrozenInALaunch : public KilledInALaunch {
 protected:
  FrozenInALaunch() : KilledInALaunch({"heartbeat_timeout_ms=1500", "eviction_timeout_ms=1500"}) {}
};

std::string NameOf(const ::testing::TestParamInfo<Kind>& one) { return one.param.name; }
constexpr Kind kServers{"Servers", 2, true};
constexpr Kind kNoServers{"NoServers", 2, false};
constexpr Kind kServersOfThree{"ServersGroupOfThree", 3, true};
constexpr Kind kNoServersOfThree{"NoServersGroupOfThree", 3, false};
INSTANTIATE_TEST_SUITE_P(All, KilledInALaunch,
                         ::testing::Values(kServers, kNoServers, kServersOfThree,
                                           kNoServersOfThree),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(All, KilledBesideAClose,
                         ::testing::Values(kServersOfThree, kNoServersOfThree), NameOf);
INSTANTIATE_TEST_SUITE_P(All, FrozenInALaunch, ::testing::Values(kServers, kNoServers), NameOf);

TEST_P(KilledInALaunch, IsNamedToTheOthersWhoLeaveNothing) { Run(false); }

// The others abort at once. Each of their groups would wait three seconds for the last rank.
TEST_P(KilledBesideAClose, IsWaitedForByNobody) {
  StartChild(kLeaves);
  std::vector<std::future<void>> ranks;
  for (int rank = 0; rank < last_; ++rank) {
    ranks.push_back(std::async(std::launch::async, [this, rank] { SumAndClose(rank); }));
  }
  AwaitHeld();
  for (std::future<void>& one : ranks) {
    EXPECT_EQ(one.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  }
  Kill();
  for (std::future<void>& one : ranks) {
    EXPECT_EQ(one.wait_for(std::chrono::milliseconds(1500)), std::future_status::ready);
  }
  for (std::future<void>& one : ranks) one.get();
  EndChild();
}

// The others abort the launch, but the abort waits for the frozen rank. So the operation stays
// open, because the GPU may still use its memory, until that process ends.
TEST_P(FrozenInALaunch, HoldsTheLaunchUntilItEnds) { Run(true); }

}  // namespace
}  // namespace byteps::standin::killed_in_groups
