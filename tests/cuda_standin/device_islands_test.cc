// Whole jobs on a machine with two groups of two GPUs each. A process of the stand-in has two GPUs,
// so the ranks of the second group are in a process of their own.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
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

namespace byteps::standin::islands {
namespace {

using byteps::testing::CApiJob;
using byteps::testing::Opened;
using pieces::End;

constexpr int kRanksOfProcess = STAND_IN_DEVICES;
constexpr int64_t kFloats = 1500001;  // two units
// Of the settings of the ranks in the other process; a number follows.
constexpr const char* kSettings = "STAND_IN_CHILD_SETTINGS_";

End Reduce(byteps_session* session, byteps_op op, void* memory, int device) {
  byteps_request request = pieces::RequestOf(op, memory, memory, kFloats);
  if (device >= 0) {
    request.memory = BYTEPS_MEMORY_DEVICE;
    request.device = device;
    request.stream = BYTEPS_NO_STREAM;
  }
  byteps_handle handle = 0;
  byteps_error error{};
  EXPECT_EQ(byteps_start(session, &request, &handle, &error), BYTEPS_OK) << error.message;
  return pieces::WaitFor(session, handle);
}

// Reduces in host memory and on the rank's device, and expects the same bits: each addition has two
// numbers, in the window and in the groups.
void RunRank(int rank, const std::vector<std::string>& settings) {
  byteps_session* const session = Opened(settings);
  ASSERT_NE(session, nullptr);
  const int device = rank % kRanksOfProcess;
  for (byteps_op op : {BYTEPS_SUM, BYTEPS_AVERAGE, BYTEPS_MAX}) {
    Bytes expected = pieces::InputOf(rank, kFloats);
    const End on_host = Reduce(session, op, expected.data(), -1);
    EXPECT_EQ(on_host.code, BYTEPS_OK) << on_host.text;
    const UserContext context(device);
    UserMemory memory(expected.size());
    memory.Set(pieces::InputOf(rank, kFloats));
    const End on_device = Reduce(session, op, memory.data(), device);
    EXPECT_EQ(on_device.code, BYTEPS_OK) << on_device.text;
    EXPECT_TRUE(memory.Read() == expected) << "rank " << rank << ", op " << op;
  }
  byteps_close(session);
}

// `settings`: of the ranks of this process.
void RunRanks(int first, const std::vector<std::vector<std::string>>& settings) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kRanksOfProcess; ++i) {
    threads.emplace_back([&, i] { RunRank(first + i, settings[static_cast<size_t>(i)]); });
  }
  for (std::thread& one : threads) one.join();
  EXPECT_GT(nccl_stand_in_count().collectives, 0u) << "GPUs sum among themselves";
}

// The process of the second group; the test below starts it.
TEST(RanksOfAnIsland, DISABLED_Child) {
  std::vector<std::vector<std::string>> settings;
  for (int i = 0; i < kRanksOfProcess; ++i) {
    const char* const told = std::getenv((kSettings + std::to_string(i)).c_str());
    if (told == nullptr) return;
    settings.push_back(SettingsIn(told));
  }
  stand_in_first_gpu(kRanksOfProcess);
  RunRanks(kRanksOfProcess, settings);
}

pid_t StartChild(const CApiJob& job) {
  std::map<std::string, std::string> variables;
  for (int i = 0; i < kRanksOfProcess; ++i) {
    variables[kSettings + std::to_string(i)] = LinesOf(job.WorkerSettings(kRanksOfProcess + i));
  }
  return StartTest("RanksOfAnIsland.DISABLED_Child", variables);
}

// With servers, or without.
class Islands : public ::testing::TestWithParam<bool> {
 protected:
  Islands() {
    constexpr int kNoNvlink = 5;
    stand_in_nvml_reset();
    stand_in_nvml_machine(2 * kRanksOfProcess, 0, kNoNvlink);
  }
  ~Islands() override { stand_in_nvml_reset(); }

  const NothingLeft nothing_left_;
  const NoGroupsLeft no_groups_left_;
};

INSTANTIATE_TEST_SUITE_P(All, Islands, ::testing::Bool(), [](const auto& one) {
  return std::string(one.param ? "Servers" : "NoServers");
});

TEST_P(Islands, SumsHaveTheBitsOfHostMemory) {
  CApiJob job({1, 2 * kRanksOfProcess, GetParam()},
              {"cuda_library=" + LibraryPath(), "nvml_library=" + NvmlPath(),
               "nccl_library=" + NcclPath(), "device_sums=nccl", "local_reduce=1",
               "pcie_switch_size=" + std::to_string(kRanksOfProcess)});
  const pid_t child = StartChild(job);  // before other threads read the environment
  job.StartServices();
  RunRanks(0, {job.WorkerSettings(0), job.WorkerSettings(1)});
  int how = 0;
  EXPECT_EQ(waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0) << "the ranks of the second group: " << how;
  EXPECT_EQ(nccl_stand_in_count().communicators, 0);
  nccl_stand_in_reset();  // only the other process has used the name of the second group
}

}  // namespace
}  // namespace byteps::standin::islands
