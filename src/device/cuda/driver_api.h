// Declares what the library calls of the CUDA driver: types, numbers and functions. So building the
// library needs nothing of NVIDIA's. driver_api_check.cc compares each line with NVIDIA's header.
//
// The names are those of the library's symbols. Some have a suffix, because the plain name belongs
// to an older function with other types.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUuuid_st;

namespace byteps::device::cuda {

using Code = int;
using Ordinal = int;
using Address = unsigned long long;  // NOLINT: the type in NVIDIA's header
using Context = CUctx_st*;
using Stream = CUstream_st*;
using Event = CUevent_st*;

inline constexpr Code kSuccess = 0;
inline constexpr Code kOutOfMemory = 2;
inline constexpr Code kDeinitialized = 4;
inline constexpr Code kNoDevice = 100;
inline constexpr Code kNotReady = 600;
inline constexpr Code kStreamCaptureImplicit = 906;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingSync = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr int kCaptureModeRelaxed = 2;
inline constexpr int kCaptureStatusNone = 0;
inline constexpr int kPointerAttributeMemoryType = 2;
inline constexpr int kPointerAttributeDeviceOrdinal = 9;
inline constexpr unsigned kMemoryTypeDevice = 2;
inline constexpr size_t kUuidBytes = 16;

// FUNCTION(name, version of the oldest driver that has it, parameters...). 11040 means 11.4.
#define BYTEPS_CUDA_FUNCTIONS(FUNCTION)                                                \
  FUNCTION(cuInit, 2000, unsigned flags)                                               \
  FUNCTION(cuDriverGetVersion, 2020, int* version)                                     \
  FUNCTION(cuGetErrorName, 6000, Code code, const char** name)                         \
  FUNCTION(cuGetErrorString, 6000, Code code, const char** text)                       \
  FUNCTION(cuDeviceGetCount, 2000, int* count)                                         \
  FUNCTION(cuDeviceGet, 2000, Ordinal* device, int number)                             \
  FUNCTION(cuDeviceGetName, 2000, char* name, int capacity, Ordinal device)            \
  FUNCTION(cuDeviceGetUuid_v2, 11040, CUuuid_st* uuid, Ordinal device)                 \
  FUNCTION(cuDeviceGetPCIBusId, 4010, char* text, int capacity, Ordinal device)        \
  FUNCTION(cuDevicePrimaryCtxRetain, 7000, Context* context, Ordinal device)           \
  FUNCTION(cuDevicePrimaryCtxRelease_v2, 11000, Ordinal device)                        \
  FUNCTION(cuCtxGetCurrent, 4000, Context* context)                                    \
  FUNCTION(cuCtxSetCurrent, 4000, Context context)                                     \
  FUNCTION(cuThreadExchangeStreamCaptureMode, 10010, int* mode)                        \
  FUNCTION(cuPointerGetAttribute, 4000, void* value, int attribute, Address address)   \
  FUNCTION(cuMemHostAlloc, 2020, void** memory, size_t bytes, unsigned flags)          \
  FUNCTION(cuMemFreeHost, 2000, void* memory)                                          \
  FUNCTION(cuMemHostRegister_v2, 6050, void* memory, size_t bytes, unsigned flags)     \
  FUNCTION(cuMemHostUnregister, 4000, void* memory)                                    \
  FUNCTION(cuMemcpyAsync, 4000, Address to, Address from, size_t bytes, Stream stream) \
  FUNCTION(cuStreamCreateWithPriority, 5050, Stream* stream, unsigned flags, int rank) \
  FUNCTION(cuStreamDestroy_v2, 4000, Stream stream)                                    \
  FUNCTION(cuStreamSynchronize, 2000, Stream stream)                                   \
  FUNCTION(cuStreamIsCapturing, 10000, Stream stream, int* status)                     \
  FUNCTION(cuEventCreate, 2000, Event* event, unsigned flags)                          \
  FUNCTION(cuEventDestroy_v2, 4000, Event event)                                       \
  FUNCTION(cuEventRecord, 2000, Event event, Stream stream)                            \
  FUNCTION(cuEventQuery, 2000, Event event)                                            \
  FUNCTION(cuEventSynchronize, 2000, Event event)

// The functions, once they have been found.
struct Functions {
#define BYTEPS_CUDA_MEMBER(name, since, ...) Code (*name)(__VA_ARGS__) = nullptr;
  BYTEPS_CUDA_FUNCTIONS(BYTEPS_CUDA_MEMBER)
#undef BYTEPS_CUDA_MEMBER
};

}  // namespace byteps::device::cuda
