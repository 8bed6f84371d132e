// Tests of what the library learns from NVML, and of an NVML that is missing, broken or silent.
#include "src/device/cuda/nvml.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "src/device/cuda/cuda_devices.h"
#include "src/device/cuda/nvml_api.h"
#include "tests/cuda_standin/nvml_standin_for_test.h"
#include "tests/cuda_standin/standin_for_test.h"

namespace byteps::device::cuda {
namespace {

using standin::NvmlPath;

constexpr int kPeersRefused = 4;

class NvmlTest : public ::testing::Test {
 protected:
  NvmlTest() { stand_in_nvml_reset(); }
  ~NvmlTest() override { EXPECT_EQ(stand_in_nvml_started(), 0) << "each start has its end"; }

  static std::string WhyNothing(const std::string& library = NvmlPath()) {
    Result<MachineGpus> found = LookAtMachine(library);
    EXPECT_FALSE(found.ok());
    if (found.ok()) return "";
    EXPECT_EQ(found.status().code(), StatusCode::kUnavailable);
    return found.status().message();
  }
};

TEST_F(NvmlTest, AMissingLibraryIsOneSentence) {
  const std::string why = WhyNothing("/nowhere/libnvidia-ml.so.1");
  EXPECT_NE(why.find("/nowhere/libnvidia-ml.so.1"), std::string::npos) << why;
  EXPECT_NE(why.find("NVIDIA_DRIVER_CAPABILITIES"), std::string::npos) << why;
}

TEST_F(NvmlTest, ALibraryWithoutItsFunctionsIsToldWithTheFirst) {
  const std::string why = WhyNothing(standin::LibraryPath());
  EXPECT_NE(why.find("does not have the function nvmlInit_v2"), std::string::npos) << why;
  EXPECT_NE(why.find("install a newer driver"), std::string::npos) << why;
}

TEST_F(NvmlTest, EachGpuIsThatOfTheCudaDriver) {
  const standin::NothingLeft nothing;
  Result<MachineGpus> machine = LookAtMachine(NvmlPath());
  Result<std::unique_ptr<Devices>> devices = FindDevices(standin::LibraryPath());
  ASSERT_TRUE(machine.ok() && devices.ok()) << machine.status().ToString();
  ASSERT_EQ(machine->gpus.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    const MachineGpu& gpu = machine->gpus[static_cast<size_t>(i)];
    EXPECT_EQ(gpu.uuid, devices.value()->FactsOf(i)->uuid);
    EXPECT_EQ(gpu.address, "0000" + devices.value()->FactsOf(i)->address);
    EXPECT_FALSE(gpu.has_parts);
    EXPECT_NE(gpu.name.find("stand-in"), std::string::npos);
  }
}

GpuReach ReachWith(int peers, int nvlink) {
  stand_in_nvml_machine(4, peers, nvlink);
  Result<MachineGpus> machine = LookAtMachine(NvmlPath());
  EXPECT_TRUE(machine.ok()) << machine.status().ToString();
  if (!machine.ok() || machine->reach.size() != 16) return GpuReach::kUnknown;
  EXPECT_EQ(machine->reach[5], GpuReach::kNot) << "of itself";
  EXPECT_EQ(machine->reach[1], machine->reach[14]);
  return machine->reach[1];
}

TEST_F(NvmlTest, WhoReachesWhom) {
  EXPECT_EQ(ReachWith(kNvmlPeerOk, kPeersRefused), GpuReach::kPci);
  EXPECT_EQ(ReachWith(kPeersRefused, kPeersRefused), GpuReach::kNot);
  EXPECT_EQ(ReachWith(kNvmlPeerOk, kNvmlPeerOk), GpuReach::kNvlink);
  EXPECT_EQ(ReachWith(kNvmlPeerUnknown, kPeersRefused), GpuReach::kUnknown);
  stand_in_nvml_fail("nvmlDeviceGetP2PStatus", 999);
  EXPECT_EQ(ReachWith(kNvmlPeerOk, kNvmlPeerOk), GpuReach::kUnknown);
}

TEST_F(NvmlTest, AGpuInPartsSaysSo) {
  stand_in_nvml_cut(1);
  Result<MachineGpus> machine = LookAtMachine(NvmlPath());
  ASSERT_TRUE(machine.ok());
  EXPECT_FALSE(machine->gpus[0].has_parts);
  EXPECT_TRUE(machine->gpus[1].has_parts);
}

TEST_F(NvmlTest, EachErrorIsTold) {
  for (const char* function :
       {"nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo_v3"}) {
    stand_in_nvml_reset();
    stand_in_nvml_fail(function, 999);
    EXPECT_NE(WhyNothing().find(": Failed"), std::string::npos) << function;
  }
  stand_in_nvml_reset();
}

}  // namespace
}  // namespace byteps::device::cuda
