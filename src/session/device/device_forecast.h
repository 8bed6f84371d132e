// Says which way the GPUs of this machine sum (plan/device_sums.h), from what the machine, NVML and
// the options say. Before the ranks have said which GPUs they have, the forecast supposes that the
// rank with local rank i has GPU i, in the order of the PCI bus.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/config/options.h"
#include "src/device/cuda/nvml.h"
#include "src/plan/device_sums.h"
#include "src/topology/machine.h"

namespace byteps::session {

// An interface that carries tensors.
struct NetworkCard {
  std::string interface;
  uint64_t mbit = 0;  // 0: unknown
};

// Holds what this machine shows.
struct DeviceSight {
  topology::Machine host;
  std::vector<NetworkCard> cards;
  device::cuda::MachineGpus gpus;
};
// May wait for NVIDIA's driver. kUnavailable: NVML does not tell, with the reason.
using LookAtDevices = std::function<Result<DeviceSight>()>;

// Returns the machine as the plan sees it, with as many ranks as the options say. REQUIRES: there
// is a GPU.
plan::DeviceMachine DeviceMachineOf(const config::Options& options,
                                    const topology::Machine& machine,
                                    std::span<const NetworkCard> cards,
                                    const device::cuda::MachineGpus& gpus);

// The same, with the GPUs that the ranks have said, by uuid. A GPU that NVML does not show counts
// as unknown.
plan::DeviceMachine DeviceMachineOf(const config::Options& options,
                                    const topology::Machine& machine,
                                    std::span<const NetworkCard> cards,
                                    const device::cuda::MachineGpus& gpus,
                                    std::span<const std::string> uuids);

// Returns the plan with what the options say in place of the machine.
plan::DeviceSums ForeseeDeviceSums(const config::Options& options,
                                   const plan::DeviceMachine& machine);

}  // namespace byteps::session
