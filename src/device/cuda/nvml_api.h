// Declares what the library calls of NVML, NVIDIA's library for facts of a machine's GPUs: types,
// numbers and functions. nvml_api_check.cc compares each line with NVIDIA's header.
#pragma once

struct nvmlDevice_st;

namespace byteps::device::cuda {

using NvmlDevice = nvmlDevice_st*;

// Holds where a device is. The fields are those of NVIDIA's header, in its order.
struct NvmlPciInfo {
  char old_address[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  char address[32];
};

inline constexpr int kNvmlSuccess = 0;
inline constexpr int kNvmlPeerRead = 0;
inline constexpr int kNvmlPeerWrite = 1;
inline constexpr int kNvmlPeerNvlink = 2;
inline constexpr int kNvmlPeerOk = 0;
inline constexpr int kNvmlPeerUnknown = 6;
inline constexpr unsigned kNvmlPartsOn = 1;
inline constexpr unsigned kNvmlUuidBytes = 80;
inline constexpr unsigned kNvmlNameBytes = 96;

// FUNCTION(returned type, name, parameters...). Drivers since 450 have all of them.
#define BYTEPS_NVML_FUNCTIONS(FUNCTION)                                                          \
  FUNCTION(int, nvmlInit_v2)                                                                     \
  FUNCTION(int, nvmlShutdown)                                                                    \
  FUNCTION(const char*, nvmlErrorString, int code)                                               \
  FUNCTION(int, nvmlDeviceGetCount_v2, unsigned* count)                                          \
  FUNCTION(int, nvmlDeviceGetHandleByIndex_v2, unsigned index, NvmlDevice* device)               \
  FUNCTION(int, nvmlDeviceGetName, NvmlDevice device, char* name, unsigned capacity)             \
  FUNCTION(int, nvmlDeviceGetUUID, NvmlDevice device, char* uuid, unsigned capacity)             \
  FUNCTION(int, nvmlDeviceGetPciInfo_v3, NvmlDevice device, NvmlPciInfo* info)                   \
  FUNCTION(int, nvmlDeviceGetMigMode, NvmlDevice device, unsigned* now, unsigned* after_restart) \
  FUNCTION(int, nvmlDeviceGetP2PStatus, NvmlDevice one, NvmlDevice other, int what, int* status)

// The functions, once they have been found.
struct NvmlFunctions {
#define BYTEPS_NVML_MEMBER(returned, name, ...) returned (*name)(__VA_ARGS__) = nullptr;
  BYTEPS_NVML_FUNCTIONS(BYTEPS_NVML_MEMBER)
#undef BYTEPS_NVML_MEMBER
};

}  // namespace byteps::device::cuda
