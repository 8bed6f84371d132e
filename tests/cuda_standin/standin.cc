#include "tests/cuda_standin/standin.h"

#include "tests/cuda_standin/world.h"

using byteps::standin::DrainAll;
using byteps::standin::EventState;
using byteps::standin::Give;
using byteps::standin::MemoryWith;
using byteps::standin::StreamOf;
using byteps::standin::TheWorld;
using byteps::standin::World;

extern "C" {

void stand_in_reset(void) {
  World& world = TheWorld();
  {
    std::lock_guard lock(world.lock_mutex);
    world.stops_each_call = false;
  }
  std::lock_guard lock(world.mutex);
  world.delay_us_max = 0;
  world.rates.Set(0);
  world.rates.SetShared(0);
  world.failures.clear();
  world.broken = CUDA_SUCCESS;
  world.first_gpu = 0;
  world.holds_copies = false;
  world.copies_go_on.notify_all();
  world.copies = 0;
  world.pageable_copies = 0;
}

void stand_in_delay(uint64_t seed, uint64_t microseconds_max) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  world.random.seed(seed);
  world.delay_us_max = microseconds_max;
}

void stand_in_rate(double bytes_per_second) { TheWorld().rates.Set(bytes_per_second); }

void stand_in_shared_rate(double bytes_per_second) { TheWorld().rates.SetShared(bytes_per_second); }

void stand_in_hold_copies(int hold) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  world.holds_copies = hold != 0;
  world.copies_go_on.notify_all();
}

void stand_in_fail(const char* function, int n, CUresult code, int for_ever) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  world.failures[function] = {n, code, for_ever != 0};
}

void stand_in_lock(void) {
  World& world = TheWorld();
  std::unique_lock lock(world.lock_mutex);
  world.lock_changed.wait(lock, [&] { return world.lock_owner == std::thread::id(); });
  world.lock_owner = std::this_thread::get_id();
}

void stand_in_unlock(void) {
  World& world = TheWorld();
  std::lock_guard lock(world.lock_mutex);
  world.lock_owner = std::thread::id();
  world.is_stopped = false;
  world.lock_changed.notify_all();
}

int stand_in_is_locked(void) {
  World& world = TheWorld();
  std::lock_guard lock(world.lock_mutex);
  return world.lock_owner == std::thread::id() ? 0 : 1;
}

void stand_in_stop_each_call(void) {
  World& world = TheWorld();
  std::lock_guard lock(world.lock_mutex);
  world.stops_each_call = true;
  world.stopped.clear();
}

int stand_in_is_stopped(void) {
  World& world = TheWorld();
  std::lock_guard lock(world.lock_mutex);
  return world.is_stopped ? 1 : 0;
}

void stand_in_load_kernel(void) {
  stand_in_lock();
  DrainAll();
  stand_in_unlock();
}

void stand_in_first_gpu(int number) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  world.first_gpu = number;
}

void stand_in_break(CUresult code) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  world.broken = code;
}

void stand_in_kernel(CUstream stream, void (*work)(void* context), void* context) {
  Give(StreamOf(stream), [work, context] { work(context); });
}

void stand_in_hold(CUstream handle) {
  CUstream_st& stream = StreamOf(handle);
  auto gate = std::make_shared<EventState>();
  {
    std::lock_guard lock(TheWorld().mutex);
    stream.holds.push_back(gate);
  }
  Give(stream, [gate] {
    std::unique_lock lock(gate->mutex);
    gate->changed.wait(lock, [&] { return gate->reached > 0; });
  });
}

void stand_in_let_go(CUstream handle) {
  CUstream_st& stream = StreamOf(handle);
  std::shared_ptr<EventState> gate;
  {
    std::lock_guard lock(TheWorld().mutex);
    gate = stream.holds.front();
    stream.holds.pop_front();
  }
  std::lock_guard lock(gate->mutex);
  gate->reached = 1;
  gate->changed.notify_all();
}

void stand_in_drain(void) { DrainAll(); }

unsigned char* stand_in_bytes(CUdeviceptr address) {
  auto* const memory = MemoryWith(address);
  return memory == nullptr ? nullptr : memory->BytesAt(address);
}

stand_in_counts stand_in_count(void) {
  World& world = TheWorld();
  std::lock_guard lock(world.mutex);
  stand_in_counts counts{};
  for (const CUctx_st& context : world.contexts) counts.contexts += context.held;
  counts.streams = static_cast<int>(world.streams.size());
  counts.events = world.events;
  for (const auto& [memory, bytes] : world.pinned) counts.pinned_bytes += bytes;
  for (const auto& memory : world.memory) {
    if (memory != nullptr) counts.device_bytes += memory->taken_bytes();
  }
  counts.copies = world.copies;
  counts.pageable_copies = world.pageable_copies;
  counts.failures = world.failures.size();
  return counts;
}

}  // extern "C"
