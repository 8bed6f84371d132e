#include "tests/cuda_standin/world.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace byteps::standin {
namespace {

constexpr size_t kPage = 4096;
constexpr int kPoison = 0xdb;

void DelayItem() {
  World& world = TheWorld();
  uint64_t us = 0;
  {
    std::lock_guard lock(world.mutex);
    if (world.delay_us_max > 0) us = world.random() % (world.delay_us_max + 1);
  }
  // tidy-allow(sleep): a delay is what the test wants.
  if (us > 0) std::this_thread::sleep_for(std::chrono::microseconds(us));
}

void AwaitDriverLock() {
  World& world = TheWorld();
  std::unique_lock lock(world.lock_mutex);
  world.lock_changed.wait(lock, [&] {
    return world.lock_owner == std::thread::id() || world.lock_owner == std::this_thread::get_id();
  });
}

// The first call of each function stands still, and has the driver's lock.
void StopIfFirst(const char* function) {
  World& world = TheWorld();
  std::unique_lock lock(world.lock_mutex);
  if (!world.stops_each_call || !world.stopped.insert(function).second) return;
  const std::thread::id self = std::this_thread::get_id();
  world.lock_changed.wait(lock, [&] { return world.lock_owner == std::thread::id(); });
  world.lock_owner = self;
  world.is_stopped = true;
  world.lock_changed.wait(lock, [&] { return world.lock_owner != self; });
}

// Returns whether a context never works again after this error.
bool IsSticky(CUresult code) {
  return code == CUDA_ERROR_ILLEGAL_ADDRESS || code == CUDA_ERROR_LAUNCH_FAILED ||
         code == CUDA_ERROR_ECC_UNCORRECTABLE;
}

// Ends the streams' threads with the process.
struct AtTheEnd {
  ~AtTheEnd() {
    World& world = TheWorld();
    for (auto& stream : world.default_streams) {
      if (stream != nullptr) stream->thread->End();
    }
    for (auto& [thread, stream] : world.thread_streams) stream->thread->End();
    world.process = -1;
  }
};
// tidy-allow(global): a C library has no other object that ends with the process.
const AtTheEnd at_the_end;

}  // namespace

DeviceMemory::DeviceMemory() {
  const int file = memfd_create("stand-in device", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, kDeviceBytes) != 0) return;
  void* shown = mmap(nullptr, kDeviceBytes, PROT_NONE, MAP_SHARED, file, 0);
  void* own = mmap(nullptr, kDeviceBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (shown == MAP_FAILED || own == MAP_FAILED) return;
  shown_ = static_cast<unsigned char*>(shown);
  own_ = static_cast<unsigned char*>(own);
}

bool DeviceMemory::IsTaken(CUdeviceptr address, size_t bytes) const {
  const size_t place = address - first();
  auto behind = taken_.upper_bound(place);
  if (behind == taken_.begin()) return false;
  --behind;
  return place + bytes <= behind->first + behind->second;
}

CUdeviceptr DeviceMemory::Take(size_t bytes) {
  if (taken_.empty()) next_ = 0;
  const size_t pages = (bytes + kPage - 1) / kPage * kPage;
  if (shown_ == nullptr || next_ + pages > kDeviceBytes) return 0;
  const size_t place = next_;
  taken_[place] = bytes;
  next_ += pages + kPage;  // a page between two, so that a copy behind the end is seen
  return first() + place;
}

bool DeviceMemory::Free(CUdeviceptr address) {
  auto found = taken_.find(address - first());
  if (found == taken_.end()) return false;
  std::memset(own_ + found->first, kPoison, found->second);
  taken_.erase(found);
  return true;
}

size_t DeviceMemory::taken_bytes() const {
  size_t sum = 0;
  for (const auto& [place, bytes] : taken_) sum += bytes;
  return sum;
}

World& TheWorld() {
  // tidy-allow(global): the driver is one for a process, and its C interface has no object.
  // tidy-allow(new): threads of streams may run until the process has ended.
  static World* const world = new World;
  return *world;
}

ThreadState& OfThread() {
  // tidy-allow(global): each thread has its own.
  thread_local ThreadState state;
  return state;
}

CUresult Enter(const char* function, Needs needs) {
  World& world = TheWorld();
  if (world.process == -1) return CUDA_ERROR_DEINITIALIZED;
  if (world.process != 0 && world.process != getpid()) return CUDA_ERROR_NOT_INITIALIZED;
  AwaitDriverLock();
  StopIfFirst(function);
  std::lock_guard lock(world.mutex);
  auto failure = world.failures.find(function);
  if (failure != world.failures.end() && --failure->second.in_calls <= 0) {
    const CUresult code = failure->second.code;
    if (IsSticky(code)) world.broken = code;
    if (!failure->second.for_ever) world.failures.erase(failure);
    return code;
  }
  if (needs == Needs::kNothing) return CUDA_SUCCESS;
  if (world.process == 0) return CUDA_ERROR_NOT_INITIALIZED;
  if (needs == Needs::kStart) return CUDA_SUCCESS;
  const CUcontext context = OfThread().context;
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (context->held == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return world.broken;
}

CUresult EnterUnsafe(const char* function) {
  const CUresult entered = Enter(function, Needs::kContext);
  if (entered != CUDA_SUCCESS || OfThread().mode == CU_STREAM_CAPTURE_MODE_RELAXED) return entered;
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  bool breaks = false;
  for (CUstream stream : world.streams) {
    if (!stream->is_capturing || stream->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    const bool is_own = stream->capturer == std::this_thread::get_id();
    const bool is_global = stream->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!is_own && !(is_global && OfThread().mode == CU_STREAM_CAPTURE_MODE_GLOBAL)) continue;
    stream->is_capture_broken = true;
    breaks = true;
  }
  return breaks ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

void NoteWait() {
  if (OfThread().mode == CU_STREAM_CAPTURE_MODE_RELAXED) OfThread().is_line = true;
}

CUresult EnterAllocation(const char* function) {
  if (OfThread().is_line) {
    std::fprintf(stderr, "stand-in: %s on a thread that waits for copies or marks of others\n",
                 function);
    std::abort();
  }
  const CUresult entered = EnterUnsafe(function);
  if (entered == CUDA_SUCCESS) DrainAll();
  return entered;
}

std::unique_ptr<CUstream_st> MakeStream(bool is_blocking) {
  auto stream = std::make_unique<CUstream_st>();
  stream->thread = std::make_shared<StreamThread>(DelayItem);
  stream->is_blocking = is_blocking;
  stream->device = OfThread().context->device;
  return stream;
}

CUstream_st& StreamOf(CUstream handle) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  if (handle == CU_STREAM_PER_THREAD) {
    auto& stream = world.thread_streams[{std::this_thread::get_id(), OfThread().context->device}];
    if (stream == nullptr) stream = MakeStream(true);
    return *stream;
  }
  if (handle != nullptr && handle != CU_STREAM_LEGACY) return *handle;
  auto& stream = world.default_streams[OfThread().context->device];
  if (stream == nullptr) stream = MakeStream(true);
  return *stream;
}

void Give(CUstream_st& stream, std::function<void()> work) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  std::vector<Point> first;
  auto wait_for = [&](const CUstream_st& other) {
    if (&other == &stream || other.device != stream.device || !other.is_blocking) return;
    first.push_back({other.thread, other.thread->given()});
  };
  const auto& legacy = world.default_streams[stream.device];
  if (&stream == legacy.get()) {
    for (CUstream other : world.streams) wait_for(*other);
    for (const auto& [thread, other] : world.thread_streams) wait_for(*other);
  } else if (stream.is_blocking && legacy != nullptr) {
    wait_for(*legacy);
  }
  stream.thread->Give(std::move(first), std::move(work));
}

void DrainAll() {
  World& world = TheWorld();
  std::vector<std::shared_ptr<StreamThread>> threads;
  {
    std::lock_guard lock(world.mutex);
    for (CUstream stream : world.streams) threads.push_back(stream->thread);
    for (const auto& stream : world.default_streams) {
      if (stream != nullptr) threads.push_back(stream->thread);
    }
    for (const auto& [thread, stream] : world.thread_streams) threads.push_back(stream->thread);
  }
  for (const auto& thread : threads) thread->Drain();
}

DeviceMemory* MemoryWith(CUdeviceptr address) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  for (const auto& memory : world.memory) {
    if (memory != nullptr && memory->Has(address)) return memory.get();
  }
  return nullptr;
}

bool IsPinned(const char* memory, size_t bytes) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  auto behind = world.pinned.upper_bound(memory);
  if (behind == world.pinned.begin()) return false;
  --behind;
  return memory + bytes <= behind->first + behind->second;
}

bool IsBlockingStreamCaptured() {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  return std::ranges::any_of(
      world.streams, [](CUstream stream) { return stream->is_capturing && stream->is_blocking; });
}

}  // namespace byteps::standin
