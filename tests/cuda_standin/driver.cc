// The stand-in's functions with the driver's names.
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "tests/cuda_standin/world.h"

// NVIDIA's header gives some plain names a suffix by macros. Here every name is the symbol's own.
#undef cuMemAlloc
#undef cuMemFree
#undef cuMemHostRegister
#undef cuStreamDestroy
#undef cuEventDestroy
#undef cuDevicePrimaryCtxRelease
#undef cuDeviceGetUuid
#undef cuStreamBeginCapture

using byteps::standin::DeviceMemory;
using byteps::standin::Enter;
using byteps::standin::EnterAllocation;
using byteps::standin::EnterUnsafe;
using byteps::standin::EventState;
using byteps::standin::Give;
using byteps::standin::IsBlockingStreamCaptured;
using byteps::standin::IsPinned;
using byteps::standin::LinkRates;
using byteps::standin::MakeStream;
using byteps::standin::MemoryWith;
using byteps::standin::Needs;
using byteps::standin::NoteWait;
using byteps::standin::OfThread;
using byteps::standin::StreamOf;
using byteps::standin::TheWorld;
using byteps::standin::World;

#define STAND_IN_ENTER(needs) \
  if (const CUresult entered = Enter(__func__, needs); entered != 0) return entered
#define STAND_IN_ENTER_ALLOCATION() \
  if (const CUresult entered = EnterAllocation(__func__); entered != 0) return entered
#define STAND_IN_ENTER_UNSAFE() \
  if (const CUresult entered = EnterUnsafe(__func__); entered != 0) return entered

namespace {

bool IsNumber(CUdevice device) { return device >= 0 && device < STAND_IN_DEVICES; }

// A place of a copy: in device memory, or in the host's.
struct Place {
  CUdeviceptr address;
  DeviceMemory* memory;  // null: the host's

  bool IsTaken(size_t bytes) const {
    std::lock_guard lock(TheWorld().mutex);
    return memory == nullptr || memory->IsTaken(address, bytes);
  }
  bool IsPageable(size_t bytes) const {
    return memory == nullptr && !IsPinned(reinterpret_cast<const char*>(address), bytes);
  }
  unsigned char* bytes() const {
    return memory == nullptr ? reinterpret_cast<unsigned char*>(address) : memory->BytesAt(address);
  }
};

Place PlaceOf(CUdeviceptr address) { return {address, MemoryWith(address)}; }

int FirstGpu() {
  std::lock_guard lock(TheWorld().mutex);
  return TheWorld().first_gpu;
}

CUresult Broken() {
  std::lock_guard lock(TheWorld().mutex);
  return TheWorld().broken;
}

void AwaitCopiesMayGoOn() {
  World& world = TheWorld();
  std::unique_lock lock(world.mutex);
  world.copies_go_on.wait(lock, [&] { return !world.holds_copies; });
}

void DoCopy(int device, const Place& to, const Place& from, size_t bytes) {
  const auto begun = LinkRates::Clock::now();
  AwaitCopiesMayGoOn();
  if (Broken() != CUDA_SUCCESS) return;
  if (!to.IsTaken(bytes) || !from.IsTaken(bytes)) {
    std::lock_guard lock(TheWorld().mutex);
    TheWorld().broken = CUDA_ERROR_ILLEGAL_ADDRESS;
    return;
  }
  std::memcpy(to.bytes(), from.bytes(), bytes);
  TheWorld().rates.Pass(device, to.memory != nullptr, bytes, begun);
}

// The default stream cannot be used while another blocking stream is being captured.
bool IsImplicit(CUstream handle) {
  const bool is_default = handle == nullptr || handle == CU_STREAM_LEGACY;
  return is_default && IsBlockingStreamCaptured();
}

const char* NameOf(CUresult code) {
  switch (code) {
    case CUDA_SUCCESS: return "CUDA_SUCCESS";
    case CUDA_ERROR_INVALID_VALUE: return "CUDA_ERROR_INVALID_VALUE";
    case CUDA_ERROR_OUT_OF_MEMORY: return "CUDA_ERROR_OUT_OF_MEMORY";
    case CUDA_ERROR_NOT_INITIALIZED: return "CUDA_ERROR_NOT_INITIALIZED";
    case CUDA_ERROR_DEINITIALIZED: return "CUDA_ERROR_DEINITIALIZED";
    case CUDA_ERROR_NO_DEVICE: return "CUDA_ERROR_NO_DEVICE";
    case CUDA_ERROR_INVALID_DEVICE: return "CUDA_ERROR_INVALID_DEVICE";
    case CUDA_ERROR_INVALID_CONTEXT: return "CUDA_ERROR_INVALID_CONTEXT";
    case CUDA_ERROR_NOT_READY: return "CUDA_ERROR_NOT_READY";
    case CUDA_ERROR_CONTEXT_IS_DESTROYED: return "CUDA_ERROR_CONTEXT_IS_DESTROYED";
    case CUDA_ERROR_INVALID_HANDLE: return "CUDA_ERROR_INVALID_HANDLE";
    case CUDA_ERROR_LAUNCH_FAILED: return "CUDA_ERROR_LAUNCH_FAILED";
    case CUDA_ERROR_ILLEGAL_ADDRESS: return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case CUDA_ERROR_NOT_SUPPORTED: return "CUDA_ERROR_NOT_SUPPORTED";
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
      return "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED";
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: return "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: return "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT";
    case CUDA_ERROR_CAPTURED_EVENT: return "CUDA_ERROR_CAPTURED_EVENT";
    default: return nullptr;
  }
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int) {
  STAND_IN_ENTER(Needs::kNothing);
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  if (world.process != 0) return CUDA_SUCCESS;
  for (auto& memory : world.memory) memory = std::make_unique<DeviceMemory>();
  for (int device = 0; device < STAND_IN_DEVICES; ++device) world.contexts[device].device = device;
  world.process = getpid();
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  STAND_IN_ENTER(Needs::kNothing);
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult code, const char** name) {
  *name = NameOf(code);
  return *name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult code, const char** text) {
  *text = NameOf(code) == nullptr ? nullptr : "an error of the stand-in for the CUDA driver";
  return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  STAND_IN_ENTER(Needs::kStart);
  *count = STAND_IN_DEVICES;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int number) {
  STAND_IN_ENTER(Needs::kStart);
  *device = number;
  return IsNumber(number) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char* name, int capacity, CUdevice device) {
  STAND_IN_ENTER(Needs::kStart);
  std::snprintf(name, static_cast<size_t>(capacity), "stand-in for a GPU, number %d", device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  STAND_IN_ENTER(Needs::kStart);
  std::memset(uuid->bytes, 0x50 + FirstGpu() + device, sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int capacity, CUdevice device) {
  STAND_IN_ENTER(Needs::kStart);
  std::snprintf(text, static_cast<size_t>(capacity), "0000:%02x:00.0", 0x10 + FirstGpu() + device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  STAND_IN_ENTER(Needs::kStart);
  if (!IsNumber(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(TheWorld().mutex);
  *context = &TheWorld().contexts[device];
  ++(*context)->held;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  STAND_IN_ENTER(Needs::kStart);
  if (!IsNumber(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(TheWorld().mutex);
  CUctx_st& context = TheWorld().contexts[device];
  if (context.held == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --context.held;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  STAND_IN_ENTER(Needs::kStart);
  *context = OfThread().context;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  STAND_IN_ENTER(Needs::kStart);
  OfThread().context = context;
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  STAND_IN_ENTER(Needs::kContext);
  std::swap(OfThread().mode, *mode);
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  STAND_IN_ENTER(Needs::kContext);
  std::lock_guard lock(TheWorld().mutex);
  for (int device = 0; device < STAND_IN_DEVICES; ++device) {
    if (!TheWorld().memory[device]->Has(address)) continue;
    if (!TheWorld().memory[device]->IsTaken(address, 1)) return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
      *static_cast<unsigned*>(value) = CU_MEMORYTYPE_DEVICE;
    } else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
      *static_cast<int*>(value) = device;
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  STAND_IN_ENTER_UNSAFE();
  std::lock_guard lock(TheWorld().mutex);
  *address = TheWorld().memory[OfThread().context->device]->Take(bytes);
  return *address == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  STAND_IN_ENTER_ALLOCATION();
  DeviceMemory* const memory = MemoryWith(address);
  std::lock_guard lock(TheWorld().mutex);
  return memory != nullptr && memory->Free(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned int) {
  STAND_IN_ENTER_ALLOCATION();
  void* made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = made;
  std::lock_guard lock(TheWorld().mutex);
  TheWorld().pinned[static_cast<char*>(made)] = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* memory) {
  STAND_IN_ENTER_ALLOCATION();
  std::lock_guard lock(TheWorld().mutex);
  auto found = TheWorld().pinned.find(static_cast<char*>(memory));
  if (found == TheWorld().pinned.end()) return CUDA_ERROR_INVALID_VALUE;
  munmap(memory, found->second);
  TheWorld().pinned.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void* memory, size_t bytes, unsigned int) {
  STAND_IN_ENTER_ALLOCATION();
  const auto* const begin = static_cast<const char*>(memory);
  if (IsPinned(begin, bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  std::lock_guard lock(TheWorld().mutex);
  TheWorld().pinned[begin] = bytes;
  TheWorld().registered.insert(begin);
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* memory) {
  STAND_IN_ENTER_ALLOCATION();
  std::lock_guard lock(TheWorld().mutex);
  const auto* const begin = static_cast<const char*>(memory);
  if (TheWorld().registered.erase(begin) == 0) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  TheWorld().pinned.erase(begin);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle) {
  STAND_IN_ENTER(Needs::kContext);
  if (IsImplicit(handle)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  const Place target = PlaceOf(to);
  const Place source = PlaceOf(from);
  if (!target.IsTaken(bytes) || !source.IsTaken(bytes)) return CUDA_ERROR_INVALID_VALUE;
  CUstream_st& stream = StreamOf(handle);
  if (stream.device != OfThread().context->device) return CUDA_ERROR_INVALID_HANDLE;
  if (stream.is_capturing) return CUDA_SUCCESS;
  const bool is_pageable = target.IsPageable(bytes) || source.IsPageable(bytes);
  {
    std::lock_guard lock(TheWorld().mutex);
    ++TheWorld().copies;
    TheWorld().pageable_copies += is_pageable ? 1 : 0;
  }
  Give(stream,
       [device = stream.device, target, source, bytes] { DoCopy(device, target, source, bytes); });
  if (is_pageable) stream.thread->Drain();
  return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned int flags, int) {
  STAND_IN_ENTER(Needs::kContext);
  *handle = MakeStream((flags & CU_STREAM_NON_BLOCKING) == 0).release();
  std::lock_guard lock(TheWorld().mutex);
  TheWorld().streams.insert(*handle);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* handle, unsigned int flags) {
  return cuStreamCreateWithPriority(handle, flags, 0);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream handle) {
  STAND_IN_ENTER(Needs::kContext);
  if (IsImplicit(handle)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (!PlaceOf(to).IsTaken(count * sizeof(value))) return CUDA_ERROR_INVALID_VALUE;
  CUstream_st& stream = StreamOf(handle);
  if (stream.is_capturing) return CUDA_SUCCESS;
  Give(stream, [to, value, count] {
    std::fill_n(reinterpret_cast<unsigned int*>(stand_in_bytes(to)), count, value);
  });
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  const CUresult copied = cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), from, bytes, nullptr);
  return copied == CUDA_SUCCESS ? cuStreamSynchronize(nullptr) : copied;
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  // A broken context does not keep its objects.
  STAND_IN_ENTER(Needs::kStart);
  {
    std::lock_guard lock(TheWorld().mutex);
    if (TheWorld().streams.erase(handle) == 0) return CUDA_ERROR_INVALID_HANDLE;
  }
  handle->thread->End();
  const std::unique_ptr<CUstream_st> destroyed(handle);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  STAND_IN_ENTER_UNSAFE();
  StreamOf(handle).thread->Drain();
  return Broken();
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  STAND_IN_ENTER(Needs::kContext);
  if (IsImplicit(handle)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  const CUstream_st& stream = StreamOf(handle);
  std::lock_guard lock(TheWorld().mutex);
  *status = !stream.is_capturing       ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream.is_capture_broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  STAND_IN_ENTER(Needs::kContext);
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  CUstream_st& stream = StreamOf(handle);
  std::lock_guard lock(TheWorld().mutex);
  stream.is_capturing = true;
  stream.is_capture_broken = false;
  stream.mode = mode;
  stream.capturer = std::this_thread::get_id();
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  STAND_IN_ENTER(Needs::kContext);
  CUstream_st& stream = StreamOf(handle);
  std::lock_guard lock(TheWorld().mutex);
  *graph = nullptr;  // the stand-in cannot launch graphs
  stream.is_capturing = false;
  return stream.is_capture_broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned int) {
  STAND_IN_ENTER(Needs::kContext);
  auto made = std::make_unique<CUevent_st>();
  made->device = OfThread().context->device;
  *event = made.release();
  std::lock_guard lock(TheWorld().mutex);
  ++TheWorld().events;
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event) {
  STAND_IN_ENTER(Needs::kStart);
  const std::unique_ptr<CUevent_st> destroyed(event);
  std::lock_guard lock(TheWorld().mutex);
  --TheWorld().events;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream handle) {
  STAND_IN_ENTER(Needs::kContext);
  if (IsImplicit(handle)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  CUstream_st& stream = StreamOf(handle);
  if (event->device != stream.device) return CUDA_ERROR_INVALID_HANDLE;
  uint64_t number = 0;
  {
    std::lock_guard lock(event->state->mutex);
    event->state->captured = stream.is_capturing;
    if (stream.is_capturing) return CUDA_SUCCESS;
    number = ++event->state->recorded;
  }
  Give(stream, [state = event->state, number] {
    const CUresult error = Broken();
    std::lock_guard lock(state->mutex);
    state->reached = number;
    state->error = error;
    state->changed.notify_all();
  });
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
  STAND_IN_ENTER_UNSAFE();
  NoteWait();
  std::lock_guard lock(event->state->mutex);
  if (event->state->captured) return CUDA_ERROR_CAPTURED_EVENT;
  return event->state->reached < event->state->recorded ? CUDA_ERROR_NOT_READY
                                                        : event->state->error;
}

CUresult cuEventSynchronize(CUevent event) {
  STAND_IN_ENTER_UNSAFE();
  NoteWait();
  EventState& state = *event->state;
  std::unique_lock lock(state.mutex);
  if (state.captured) return CUDA_ERROR_CAPTURED_EVENT;
  const uint64_t number = state.recorded;
  state.changed.wait(lock, [&] { return state.reached >= number; });
  return state.error;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int) {
  STAND_IN_ENTER(Needs::kContext);
  CUstream_st& stream = StreamOf(handle);
  uint64_t number = 0;
  {
    std::lock_guard lock(event->state->mutex);
    number = event->state->recorded;
  }
  Give(stream, [state = event->state, number] {
    std::unique_lock lock(state->mutex);
    state->changed.wait(lock, [&] { return state->reached >= number; });
  });
  return CUDA_SUCCESS;
}

}  // extern "C"
