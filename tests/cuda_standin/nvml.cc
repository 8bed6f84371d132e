// The stand-in for NVML.
#include "src/device/cuda/nvml_api.h"

#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "tests/cuda_standin/nvml_standin.h"

struct nvmlDevice_st {
  unsigned number;
};

namespace {

using byteps::device::cuda::NvmlDevice;
using byteps::device::cuda::NvmlPciInfo;

constexpr int kNotFound = 6;
constexpr int kNotStarted = 1;
constexpr int kNoParts = 3;
constexpr int kPeersNotSupported = 5;

struct NvmlWorld {
  NvmlWorld() {
    for (unsigned i = 0; i < STAND_IN_NVML_GPUS_MAX; ++i) devices[i].number = i;
  }

  std::mutex mutex;
  nvmlDevice_st devices[STAND_IN_NVML_GPUS_MAX];
  unsigned gpus = 2;
  int peers = kPeersNotSupported;
  int nvlink = kPeersNotSupported;
  std::set<unsigned> cut;
  std::map<std::string, int> failures;
  int started = 0;
};

NvmlWorld& World() {
  // tidy-allow(global): NVML is one for a process, and its C interface has no object.
  static NvmlWorld world;
  return world;
}

// Carries a function out in its turn, unless it shall fail or the library was not started.
template <typename Body>
int Run(const char* function, Body body) {
  NvmlWorld& world = World();
  const std::lock_guard lock(world.mutex);
  if (const auto found = world.failures.find(function); found != world.failures.end()) {
    return found->second;
  }
  const bool starts = std::string(function) == "nvmlInit_v2";
  return starts || world.started > 0 ? body(world) : kNotStarted;
}

}  // namespace

extern "C" {

void stand_in_nvml_reset(void) {
  NvmlWorld& world = World();
  const std::lock_guard lock(world.mutex);
  world.gpus = 2;
  world.peers = world.nvlink = kPeersNotSupported;
  world.cut.clear();
  world.failures.clear();
}

void stand_in_nvml_machine(unsigned gpus, int peers, int nvlink) {
  NvmlWorld& world = World();
  const std::lock_guard lock(world.mutex);
  world.gpus = gpus;
  world.peers = peers;
  world.nvlink = nvlink;
}

void stand_in_nvml_cut(unsigned gpu) { World().cut.insert(gpu); }

void stand_in_nvml_fail(const char* function, int code) { World().failures[function] = code; }

int stand_in_nvml_started(void) { return World().started; }

int nvmlInit_v2() {
  return Run("nvmlInit_v2", [](NvmlWorld& world) {
    ++world.started;
    return 0;
  });
}

int nvmlShutdown() {
  return Run("nvmlShutdown", [](NvmlWorld& world) {
    --world.started;
    return 0;
  });
}

const char* nvmlErrorString(int code) { return code == kNotStarted ? "Uninitialized" : "Failed"; }

int nvmlDeviceGetCount_v2(unsigned* count) {
  return Run("nvmlDeviceGetCount_v2", [&](NvmlWorld& world) {
    *count = world.gpus;
    return 0;
  });
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, NvmlDevice* device) {
  return Run("nvmlDeviceGetHandleByIndex_v2", [&](NvmlWorld& world) {
    if (index >= world.gpus) return kNotFound;
    *device = &world.devices[index];
    return 0;
  });
}

int nvmlDeviceGetName(NvmlDevice device, char* name, unsigned capacity) {
  return Run("nvmlDeviceGetName", [&](NvmlWorld&) {
    std::snprintf(name, capacity, "stand-in for a GPU %u", device->number);
    return 0;
  });
}

int nvmlDeviceGetUUID(NvmlDevice device, char* uuid, unsigned capacity) {
  return Run("nvmlDeviceGetUUID", [&](NvmlWorld&) {
    std::string text = "GPU-";
    for (int byte = 0; byte < 16; ++byte) {
      char hex[3];
      std::snprintf(hex, sizeof(hex), "%02x", 0x50 + device->number);
      text += hex;
      if (byte == 3 || byte == 5 || byte == 7 || byte == 9) text += '-';
    }
    std::snprintf(uuid, capacity, "%s", text.c_str());
    return 0;
  });
}

int nvmlDeviceGetPciInfo_v3(NvmlDevice device, NvmlPciInfo* info) {
  return Run("nvmlDeviceGetPciInfo_v3", [&](NvmlWorld&) {
    *info = {};
    info->bus = 0x10 + device->number;
    std::snprintf(info->old_address, sizeof(info->old_address), "0000:%02X:00.0", info->bus);
    std::snprintf(info->address, sizeof(info->address), "00000000:%02X:00.0", info->bus);
    return 0;
  });
}

int nvmlDeviceGetMigMode(NvmlDevice device, unsigned* now, unsigned* after_restart) {
  return Run("nvmlDeviceGetMigMode", [&](NvmlWorld& world) {
    if (world.cut.empty()) return kNoParts;
    *now = *after_restart = world.cut.contains(device->number) ? 1 : 0;
    return 0;
  });
}

int nvmlDeviceGetP2PStatus(NvmlDevice one, NvmlDevice other, int what, int* status) {
  return Run("nvmlDeviceGetP2PStatus", [&](NvmlWorld& world) {
    if (one == other) return 2;  // an argument that is not allowed
    *status = what == byteps::device::cuda::kNvmlPeerNvlink ? world.nvlink : world.peers;
    return 0;
  });
}

}  // extern "C"
