// Compares driver_api.h with NVIDIA's header, while the compiler reads this file. The build
// compiles it once for each version of the header.
#include <cuda.h>

#include <type_traits>

#include "src/device/cuda/driver_api.h"

namespace byteps::device::cuda {
namespace {

// Returns whether two types travel alike in a call: they are the same, or NVIDIA's is an
// enumeration of the size of our number, or both point to such types.
template <typename Ours, typename Theirs>
constexpr bool TravelsAlike() {
  if constexpr (std::is_same_v<Ours, Theirs>) {
    return true;
  } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    return TravelsAlike<std::remove_pointer_t<Ours>, std::remove_pointer_t<Theirs>>();
  } else if constexpr (std::is_enum_v<Theirs>) {
    return std::is_integral_v<Ours> && sizeof(Ours) == sizeof(Theirs);
  } else {
    return false;
  }
}

template <typename Ours, typename Theirs>
constexpr bool kSameCall = false;
template <typename Back, typename... Parameters, typename TheirBack, typename... TheirParameters>
constexpr bool kSameCall<Back (*)(Parameters...), TheirBack (*)(TheirParameters...)> = [] {
  if constexpr (sizeof...(Parameters) == sizeof...(TheirParameters)) {
    return (TravelsAlike<Back, TheirBack>() && ... && TravelsAlike<Parameters, TheirParameters>());
  } else {
    return false;
  }
}();

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
              kHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(kCaptureModeRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED &&
              kCaptureStatusNone == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(kPointerAttributeMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE &&
              kPointerAttributeDeviceOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL &&
              kMemoryTypeDevice == CU_MEMORYTYPE_DEVICE);
static_assert(sizeof(CUuuid) == kUuidBytes);

}  // namespace
}  // namespace byteps::device::cuda
