// Compares nvml_api.h with NVIDIA's header, while the compiler reads this file.
#include <nvml.h>

#include <cstddef>

#include "src/device/cuda/nvml_api.h"
#include "src/device/same_call.h"

namespace byteps::device::cuda {
namespace {

#define BYTEPS_NVML_COMPARE(returned, name, ...) \
  static_assert(kSameCall<decltype(NvmlFunctions::name), decltype(&::name)>, #name " differs");
BYTEPS_NVML_FUNCTIONS(BYTEPS_NVML_COMPARE)
#undef BYTEPS_NVML_COMPARE

static_assert(sizeof(NvmlPciInfo) == sizeof(nvmlPciInfo_t) &&
              offsetof(NvmlPciInfo, bus) == offsetof(nvmlPciInfo_t, bus) &&
              offsetof(NvmlPciInfo, address) == offsetof(nvmlPciInfo_t, busId));
static_assert(kNvmlSuccess == NVML_SUCCESS);
static_assert(kNvmlPeerRead == NVML_P2P_CAPS_INDEX_READ &&
              kNvmlPeerWrite == NVML_P2P_CAPS_INDEX_WRITE &&
              kNvmlPeerNvlink == NVML_P2P_CAPS_INDEX_NVLINK);
static_assert(kNvmlPeerOk == NVML_P2P_STATUS_OK && kNvmlPeerUnknown == NVML_P2P_STATUS_UNKNOWN);
static_assert(kNvmlPartsOn == NVML_DEVICE_MIG_ENABLE &&
              kNvmlUuidBytes == NVML_DEVICE_UUID_BUFFER_SIZE &&
              kNvmlNameBytes == NVML_DEVICE_NAME_V2_BUFFER_SIZE);

}  // namespace
}  // namespace byteps::device::cuda
