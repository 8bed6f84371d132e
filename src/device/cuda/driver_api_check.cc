// Compares driver_api.h with NVIDIA's header, while the compiler reads this file. The build
// compiles it once for each version of the header.
#include <cuda.h>

#include "src/device/cuda/driver_api.h"
#include "src/device/same_call.h"

namespace byteps::device::cuda {
namespace {

static_assert(!kSameCall<int (*)(int), int (*)(int, int)> &&
                  !kSameCall<int (*)(int), int (*)(char)> &&
                  !kSameCall<int (*)(short*), CUresult (*)(CUresult*)>,
              "the comparison sees what differs");

#define BYTEPS_CUDA_COMPARE(name, since, ...) \
  static_assert(kSameCall<decltype(Functions::name), decltype(&::name)>, #name " differs");
BYTEPS_CUDA_FUNCTIONS(BYTEPS_CUDA_COMPARE)
#undef BYTEPS_CUDA_COMPARE

static_assert(kSuccess == CUDA_SUCCESS && kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY &&
              kDeinitialized == CUDA_ERROR_DEINITIALIZED && kNoDevice == CUDA_ERROR_NO_DEVICE &&
              kNotReady == CUDA_ERROR_NOT_READY &&
              kStreamCaptureImplicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING &&
              kEventBlockingSync == CU_EVENT_BLOCKING_SYNC &&
              kEventDisableTiming == CU_EVENT_DISABLE_TIMING &&
              kHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE &&
              kHostRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(kCaptureModeRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED &&
              kCaptureStatusNone == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(kPointerAttributeMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE &&
              kPointerAttributeDeviceOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL &&
              kMemoryTypeDevice == CU_MEMORYTYPE_DEVICE);
static_assert(sizeof(CUuuid) == kUuidBytes);

}  // namespace
}  // namespace byteps::device::cuda
