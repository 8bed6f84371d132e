// The state of the stand-in: memory, contexts, captures, the driver's lock, and what tests have
// set.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <cuda.h>

#include "tests/cuda_standin/link_rates.h"
#include "tests/cuda_standin/standin.h"
#include "tests/cuda_standin/streams.h"

namespace byteps::standin {

// The host has memory only for what is used of it.
inline constexpr size_t kDeviceBytes = size_t{1} << 30;

// The memory of one device: a view that nobody may touch, whose addresses programs get, and the
// stand-in's own view of the same bytes.
class DeviceMemory {
 public:
  DeviceMemory();
  bool Has(CUdeviceptr address) const {
    return address >= first() && address < first() + kDeviceBytes;
  }
  // Returns whether the bytes lie in one allocation.
  bool IsTaken(CUdeviceptr address, size_t bytes) const;
  CUdeviceptr Take(size_t bytes);  // 0: there is no more
  bool Free(CUdeviceptr address);
  unsigned char* BytesAt(CUdeviceptr address) const { return own_ + (address - first()); }
  size_t taken_bytes() const;

 private:
  CUdeviceptr first() const { return reinterpret_cast<CUdeviceptr>(shown_); }
  unsigned char* shown_ = nullptr;
  unsigned char* own_ = nullptr;
  size_t next_ = 0;
  std::map<size_t, size_t> taken_;  // bytes, by place
};

struct Failure {
  int in_calls = 0;
  CUresult code = CUDA_SUCCESS;
  bool for_ever = false;
};

struct World {
  std::mutex mutex;              // of all but the driver's lock
  std::atomic<int> process = 0;  // that has called cuInit; 0: none
  std::unique_ptr<DeviceMemory> memory[STAND_IN_DEVICES];
  std::map<const char*, size_t> pinned;  // bytes, by address
  std::set<const char*> registered;      // memory of the program's among these
  CUctx_st contexts[STAND_IN_DEVICES];
  std::set<CUstream> streams;  // without default streams
  std::unique_ptr<CUstream_st> default_streams[STAND_IN_DEVICES];
  // The default streams of threads, on each device.
  std::map<std::pair<std::thread::id, int>, std::unique_ptr<CUstream_st>> thread_streams;
  int events = 0;

  std::mt19937_64 random;
  uint64_t delay_us_max = 0;
  LinkRates rates;
  std::map<std::string, Failure> failures;
  CUresult broken = CUDA_SUCCESS;
  int first_gpu = 0;
  bool holds_copies = false;
  std::condition_variable copies_go_on;
  uint64_t copies = 0;
  uint64_t pageable_copies = 0;

  std::mutex lock_mutex;
  std::condition_variable lock_changed;
  std::thread::id lock_owner;  // none: nobody has the driver's lock
  bool stops_each_call = false;
  std::set<std::string> stopped;  // functions that have stopped
  bool is_stopped = false;
};

World& TheWorld();

// The calling thread's own.
struct ThreadState {
  CUcontext context = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  // It has waited for an event in relaxed mode, so it is no thread of a user.
  bool is_line = false;
};
ThreadState& OfThread();

enum class Needs { kNothing, kStart, kContext };

// Begins a call of `function`: waits for the driver's lock, and returns the error that it must
// return, if any. Must not be called under the world's mutex.
CUresult Enter(const char* function, Needs needs);
// The same for a call that breaks captures of other threads.
CUresult EnterUnsafe(const char* function);
// Notes that the calling thread waits for an event.
void NoteWait();
// Begins a call that allocates or frees memory and waits for the device. Ends the process if the
// thread is one that tells of the end of copies: what waits for such an end could hold up the
// device.
CUresult EnterAllocation(const char* function);

// Returns the stream that a handle stands for. REQUIRES: Enter has succeeded.
CUstream_st& StreamOf(CUstream handle);
std::unique_ptr<CUstream_st> MakeStream(bool is_blocking);
// Gives work to the stream, behind the other streams that it waits for.
void Give(CUstream_st& stream, std::function<void()> work);
void DrainAll();

// These take the world's mutex.
DeviceMemory* MemoryWith(CUdeviceptr address);
bool IsPinned(const char* memory, size_t bytes);
// Returns whether a stream is being captured that the default stream would wait for.
bool IsBlockingStreamCaptured();

}  // namespace byteps::standin
