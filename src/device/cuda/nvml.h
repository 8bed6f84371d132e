// The GPUs of a machine, and which of them reach each other, as NVML tells. NVML shows all GPUs,
// also where CUDA_VISIBLE_DEVICES lets this process use only some of them, and starts no context on
// any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace byteps::device::cuda {

struct MachineGpu {
  std::string name;
  std::string uuid;        // as DeviceFacts::uuid has it
  std::string address;     // on the PCI bus, as NVML writes it
  bool has_parts = false;  // it is cut into parts (MIG), and ranks have parts of it
};

// Says how a GPU reads and writes the memory of another one.
enum class GpuReach : uint8_t { kUnknown, kNot, kPci, kNvlink };

struct MachineGpus {
  std::vector<MachineGpu> gpus;  // in the order of their addresses
  std::vector<GpuReach> reach;   // of GPU i to GPU k at i * gpus + k
};

// Asks NVML, which is the library `path`, or, if the path is empty, libnvidia-ml.so.1. May wait for
// NVIDIA's driver. kUnavailable, in one sentence: there is no such library, it lacks a function, or
// it does not answer.
Result<MachineGpus> LookAtMachine(const std::string& path);

}  // namespace byteps::device::cuda
