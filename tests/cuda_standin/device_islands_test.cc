// Whole jobs on a machine with more than two GPUs: two groups of two, or one group of all. A
// process of the stand-in has two GPUs, so the other ranks are in a process of their own.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <ostream>
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
constexpr const char* kIsWhole = "STAND_IN_CHILD_IS_WHOLE";

// Returns numbers whose sums and averages are whole: they have the same bits in each order.
Bytes WholeInputOf(int rank) {
  constexpr size_t kDivisible = 12;
  std::vector<float> values(kFloats);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(kDivisible * ((i * 7 + static_cast<size_t>(rank) * 13) % 1000));
  }
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

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

// Reduces in host memory and on the rank's device, and expects the same bits. Unless all numbers
// are whole, each addition must have two numbers, in the window and in the groups.
void RunRank(int rank, bool is_whole, const std::vector<std::string>& settings) {
  const Bytes input = is_whole ? WholeInputOf(rank) : pieces::InputOf(rank, kFloats);
  byteps_session* const session = Opened(settings);
  ASSERT_NE(session, nullptr);
  const int device = rank % kRanksOfProcess;
  for (byteps_op op : {BYTEPS_SUM, BYTEPS_AVERAGE, BYTEPS_MAX}) {
    Bytes expected = input;
    const End on_host = Reduce(session, op, expected.data(), -1);
    EXPECT_EQ(on_host.code, BYTEPS_OK) << on_host.text;
    const UserContext context(device);
    UserMemory memory(expected.size());
    memory.Set(input);
    const End on_device = Reduce(session, op, memory.data(), device);
    EXPECT_EQ(on_device.code, BYTEPS_OK) << on_device.text;
    EXPECT_TRUE(memory.Read() == expected) << "rank " << rank << ", op " << op;
  }
  byteps_close(session);
}

// `settings`: of the ranks of this process.
void RunRanks(int first, bool is_whole, const std::vector<std::vector<std::string>>& settings) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < settings.size(); ++i) {
    threads.emplace_back([&, i] { RunRank(first + static_cast<int>(i), is_whole, settings[i]); });
  }
  for (std::thread& one : threads) one.join();
  EXPECT_GT(nccl_stand_in_count().collectives, 0u) << "GPUs sum among themselves";
}

// The other process; the test below starts it.
TEST(RanksOfAnIsland, DISABLED_Child) {
  std::vector<std::vector<std::string>> settings;
  while (const char* told = std::getenv((kSettings + std::to_string(settings.size())).c_str())) {
    settings.push_back(SettingsIn(told));
  }
  if (settings.empty()) return;
  stand_in_first_gpu(kRanksOfProcess);
  RunRanks(kRanksOfProcess, std::getenv(kIsWhole) != nullptr, settings);
}

struct Kind {
  const char* name;
  int ranks;
  bool has_server;
  bool is_one_group;  // all ranks over NVLink; else two groups, each behind a PCI switch
};
void PrintTo(const Kind& kind, std::ostream* to) { *to << kind.name; }

class Islands : public ::testing::TestWithParam<Kind> {
 protected:
  Islands() {
    constexpr int kNoNvlink = 5;
    stand_in_nvml_reset();
    stand_in_nvml_machine(static_cast<unsigned>(GetParam().ranks), 0,
                          GetParam().is_one_group ? 0 : kNoNvlink);
  }
  ~Islands() override { stand_in_nvml_reset(); }

  static std::vector<std::string> Settings() {
    std::vector<std::string> all = {"cuda_library=" + LibraryPath(), "nvml_library=" + NvmlPath(),
                                    "nccl_library=" + NcclPath(), "device_sums=nccl",
                                    "local_reduce=1"};
    if (!GetParam().is_one_group) {
      all.push_back("pcie_switch_size=" + std::to_string(kRanksOfProcess));
    }
    return all;
  }
  static pid_t StartChild(const CApiJob& job) {
    std::map<std::string, std::string> variables;
    if (GetParam().is_one_group) variables[kIsWhole] = "1";
    for (int rank = kRanksOfProcess; rank < GetParam().ranks; ++rank) {
      variables[kSettings + std::to_string(rank - kRanksOfProcess)] =
          LinesOf(job.WorkerSettings(rank));
    }
    return StartTest("RanksOfAnIsland.DISABLED_Child", variables);
  }

  const NothingLeft nothing_left_;
  const NoGroupsLeft no_groups_left_;
};

INSTANTIATE_TEST_SUITE_P(All, Islands,
                         ::testing::Values(Kind{"Servers", 4, true, false},
                                           Kind{"NoServers", 4, false, false},
                                           Kind{"ServersGroupOfThree", 3, true, true},
                                           Kind{"NoServersGroupOfThree", 3, false, true},
                                           Kind{"ServersGroupOfFour", 4, true, true},
                                           Kind{"NoServersGroupOfFour", 4, false, true}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(Islands, SumsHaveTheBitsOfHostMemory) {
  CApiJob job({1, GetParam().ranks, GetParam().has_server}, Settings());
  const pid_t child = StartChild(job);  // before other threads read the environment
  job.StartServices();
  RunRanks(0, GetParam().is_one_group, {job.WorkerSettings(0), job.WorkerSettings(1)});
  int how = 0;
  EXPECT_EQ(waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0) << "the ranks of the other process: " << how;
  EXPECT_EQ(nccl_stand_in_count().communicators, 0);
  // Only the other process has used the name of a second group.
  if (!GetParam().is_one_group) nccl_stand_in_reset();
}

}  // namespace
}  // namespace byteps::standin::islands
