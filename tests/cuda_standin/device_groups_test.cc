// Whole jobs whose GPUs sum among themselves before anything goes to the host, behind the C
// interface, over the stand-ins for the CUDA driver, NVML and NCCL. With two ranks in a group a sum
// has the bits of host memory, because an addition of two numbers has one order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda_standin/device_rank_for_test.h"
#include "tests/cuda_standin/nvml_standin_for_test.h"
#include "tests/nccl_standin/standin_for_test.h"

namespace byteps::standin::groups {
namespace {

using pieces::CApiJob;
using pieces::DeviceRank;
using pieces::End;
using pieces::Kind;
using pieces::OnHost;
using ::testing::HasSubstr;

// Several pieces of one unit, and several units.
constexpr int64_t kOneUnit = 300001;
constexpr int64_t kManyUnits = 5000000;

class DeviceGroups : public ::testing::TestWithParam<Kind> {
 protected:
  DeviceGroups() {
    stand_in_nvml_reset();
    stand_in_nvml_machine(STAND_IN_DEVICES, 0, 0);  // all of them over NVLink
  }
  ~DeviceGroups() override { stand_in_nvml_reset(); }

  int ranks() const { return GetParam().shape.ranks(); }
  // Returns the function of NCCL that reduces a unit.
  static const char* ReduceOfNccl() {
    return GetParam().shape.has_server ? "ncclReduce" : "ncclAllReduce";
  }
  std::vector<std::string> Settings(const std::string& nccl = NcclPath()) const {
    return {"cuda_library=" + LibraryPath(), "nvml_library=" + NvmlPath(), "nccl_library=" + nccl,
            "device_sums=nccl", "local_reduce=1"};
  }
  std::vector<End> OnAll(const std::function<End(int rank)>& of_rank) const {
    return pieces::OnAll(ranks(), of_rank);
  }
  std::vector<End> OnDevices(CApiJob& job, byteps_op op, int64_t floats) const {
    return OnAll([&](int rank) {
      DeviceRank device(job, rank, floats);
      return device.Finish(device.Start(op));
    });
  }
  // Carries out an operation on devices, and expects the bits of host memory.
  void ExpectBitsOfHost(CApiJob& job, byteps_op op, int64_t floats) const {
    const auto expected = OnAll([&](int rank) { return OnHost(job, rank, op, floats); });
    const auto ends = OnDevices(job, op, floats);
    for (size_t rank = 0; rank < ends.size(); ++rank) {
      EXPECT_EQ(ends[rank].code, BYTEPS_OK) << ends[rank].text;
      EXPECT_TRUE(ends[rank].output == expected[rank].output) << "rank " << rank;
    }
  }

  const NothingLeft nothing_left_;
  const NoGroupsLeft no_groups_left_;
};

INSTANTIATE_TEST_SUITE_P(All, DeviceGroups,
                         ::testing::Values(Kind{"OneMachine", {1, 2, true}},
                                           Kind{"Machines", {2, 2, true}},
                                           Kind{"NoServers", {1, 2, false}}),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST_P(DeviceGroups, SumsHaveTheBitsOfHostMemory) {
  stand_in_delay(1, 50);
  CApiJob job(GetParam().shape, Settings());
  ASSERT_TRUE(job.Open());
  for (byteps_op op : {BYTEPS_SUM, BYTEPS_AVERAGE, BYTEPS_MIN, BYTEPS_MAX, BYTEPS_PRODUCT}) {
    SCOPED_TRACE("op " + std::to_string(op));
    const uint64_t before = nccl_stand_in_count().collectives;
    ExpectBitsOfHost(job, op, kOneUnit);
    EXPECT_GT(nccl_stand_in_count().collectives, before) << "GPUs sum among themselves";
  }
  ExpectBitsOfHost(job, BYTEPS_SUM, kManyUnits);
  job.Close();
}

// A rank with its tensor in host memory cannot launch.
TEST_P(DeviceGroups, ARankWithoutDeviceMemoryLetsTheMachineUseTheWindow) {
  CApiJob job(GetParam().shape, Settings());
  ASSERT_TRUE(job.Open());
  ExpectBitsOfHost(job, BYTEPS_SUM, kOneUnit);
  const uint64_t before = nccl_stand_in_count().collectives;
  const auto expected = OnAll([&](int rank) { return OnHost(job, rank, BYTEPS_SUM, kOneUnit); });
  const auto ends = OnAll([&](int rank) {
    if (rank % 2 == 1) return OnHost(job, rank, BYTEPS_SUM, kOneUnit);
    DeviceRank device(job, rank, kOneUnit);
    return device.Finish(device.Start(BYTEPS_SUM));
  });
  EXPECT_EQ(nccl_stand_in_count().collectives, before);
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_EQ(ends[rank].code, BYTEPS_OK) << ends[rank].text;
    EXPECT_TRUE(ends[rank].output == expected[rank].output) << "rank " << rank;
  }
  ExpectBitsOfHost(job, BYTEPS_SUM, kOneUnit);
  EXPECT_GT(nccl_stand_in_count().collectives, before);
  job.Close();
}

// Without a group the job works as without NCCL, and says why in one line.
TEST_P(DeviceGroups, WithoutALibraryTheMachineUsesTheWindow) {
  CApiJob job(GetParam().shape, Settings("/nowhere/libnccl.so.2"));
  ASSERT_TRUE(job.Open());
  ExpectBitsOfHost(job, BYTEPS_SUM, kOneUnit);
  EXPECT_EQ(nccl_stand_in_count().collectives, 0u);
  job.Close();
}

TEST_P(DeviceGroups, RanksThatShareAGpuUseTheWindow) {
  CApiJob job(GetParam().shape, Settings());
  ASSERT_TRUE(job.Open());
  const auto expected = OnAll([&](int rank) { return OnHost(job, rank, BYTEPS_SUM, kOneUnit); });
  const auto ends = OnAll([&](int rank) {
    DeviceRank device(job, rank, kOneUnit, "w", 0);
    return device.Finish(device.Start(BYTEPS_SUM));
  });
  EXPECT_EQ(nccl_stand_in_count().collectives, 0u);
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_EQ(ends[rank].code, BYTEPS_OK) << ends[rank].text;
    EXPECT_TRUE(ends[rank].output == expected[rank].output) << "rank " << rank;
  }
  job.Close();
}

// A group that cannot be made is the window, on all ranks.
TEST_P(DeviceGroups, ARankThatCannotMeetLetsTheMachineUseTheWindow) {
  nccl_stand_in_fail("ncclCommInitRankConfig", 1, 2);
  CApiJob job(GetParam().shape, Settings());
  ASSERT_TRUE(job.Open());
  for (int round = 0; round < 2; ++round) ExpectBitsOfHost(job, BYTEPS_SUM, kOneUnit);
  job.Close();
  nccl_stand_in_reset();  // a name of a group that not all ranks have used stays (decision 63)
}

// The round under way ends in the error of NCCL on every rank. Later ones go through the window.
TEST_P(DeviceGroups, AnErrorOfNcclEndsTheRoundOnAllRanks) {
  CApiJob job(GetParam().shape, Settings());
  ASSERT_TRUE(job.Open());
  ExpectBitsOfHost(job, BYTEPS_SUM, kOneUnit);
  nccl_stand_in_fail(ReduceOfNccl(), 1, 2);
  for (const End& end : OnDevices(job, BYTEPS_SUM, kOneUnit)) {
    EXPECT_EQ(end.code, BYTEPS_UNAVAILABLE) << end.text;
    EXPECT_THAT(end.text, HasSubstr("cannot sum among themselves any more"));
  }
  ExpectBitsOfHost(job, BYTEPS_SUM, kOneUnit);
  job.Close();
}

// If the line noticed the error before the round, the round would go through the window. So the
// connection breaks when a rank stands in its launch.
TEST_P(DeviceGroups, AnErrorOfTheConnectionEndsTheRoundOnAllRanks) {
  CApiJob job(GetParam().shape, Settings());
  ASSERT_TRUE(job.Open());
  ExpectBitsOfHost(job, BYTEPS_SUM, kOneUnit);
  const char* const held = ReduceOfNccl();
  nccl_stand_in_hold(held);
  std::thread breaks([held] {
    EXPECT_TRUE(pieces::Await([held] { return nccl_stand_in_is_held(held) != 0; }));
    nccl_stand_in_break(6);
    nccl_stand_in_let_go(held);
  });
  for (const End& end : OnDevices(job, BYTEPS_SUM, kOneUnit)) {
    EXPECT_EQ(end.code, BYTEPS_UNAVAILABLE) << end.text;
    EXPECT_THAT(end.text, HasSubstr("cannot sum among themselves any more"));
  }
  breaks.join();
  job.Close();
}

// Every rank launches what was said, and the groups end in order.
TEST_P(DeviceGroups, AShutdownInTheMiddleOfLaunchesLeavesNothing) {
  CApiJob job(GetParam().shape, Settings());
  ASSERT_TRUE(job.Open());
  ExpectBitsOfHost(job, BYTEPS_SUM, kOneUnit);
  std::latch all_begun(ranks());
  const auto ends = OnAll([&](int rank) {
    DeviceRank device(job, rank, kManyUnits);
    const byteps_handle handle = device.Start(BYTEPS_SUM);
    all_begun.arrive_and_wait();
    byteps_error error{};
    EXPECT_EQ(byteps_shutdown(job.session(rank), &error), BYTEPS_OK) << error.message;
    return device.Finish(handle);
  });
  for (const End& end : ends) {
    const bool is_end_of_job = end.code == BYTEPS_SHUTDOWN || end.code == BYTEPS_PEER_LOST ||
                               end.code == BYTEPS_UNAVAILABLE;
    EXPECT_TRUE(is_end_of_job || end.code == BYTEPS_OK) << end.code << ": " << end.text;
  }
  job.Close();
}

}  // namespace
}  // namespace byteps::standin::groups
