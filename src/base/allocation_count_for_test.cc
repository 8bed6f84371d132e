#include "src/base/allocation_count_for_test.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

// tidy-allow(global): the replaced operators have no object to keep it in.
std::atomic<uint64_t> allocation_count = 0;
// tidy-allow(global): the same.
std::atomic<size_t> failing_bytes_min = SIZE_MAX;
// tidy-allow(global): the same.
std::atomic<int64_t> successes_left = 0;
// tidy-allow(global): the same.
std::atomic<uintptr_t> uncounted_begin = 0;
// tidy-allow(global): the same.
std::atomic<uintptr_t> uncounted_end = 0;

void* Allocate(size_t bytes, void* caller) {
  const auto from = reinterpret_cast<uintptr_t>(caller);
  if (from < uncounted_begin.load(std::memory_order_relaxed) ||
      from >= uncounted_end.load(std::memory_order_relaxed)) {
    allocation_count.fetch_add(1, std::memory_order_relaxed);
  }
  if (bytes >= failing_bytes_min.load() && successes_left.fetch_sub(1) <= 0) return nullptr;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

}  // namespace

// The operators are not inlined: if the compiler sees only one operator of a pair, it warns that
// memory of operator new goes to free().

[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new(size_t bytes) {
  void* memory = Allocate(bytes, __builtin_return_address(0));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// Sanitizers bring their own versions of the array operators, so these must be replaced, too.
[[gnu::noinline]] void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return operator new(bytes, std::nothrow);
}
[[gnu::noinline]] void* operator new[](size_t bytes) { return operator new(bytes); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace byteps {

NoMemory::NoMemory(uint64_t successes, size_t bytes_min) {
  successes_left.store(static_cast<int64_t>(successes));
  failing_bytes_min.store(bytes_min);
}

NoMemory::~NoMemory() { failing_bytes_min.store(SIZE_MAX); }

void DoNotCountCallers(uintptr_t begin, uintptr_t end) {
  uncounted_begin.store(begin);
  uncounted_end.store(end);
}

uint64_t AllocationCount() { return allocation_count.load(std::memory_order_relaxed); }

}  // namespace byteps
