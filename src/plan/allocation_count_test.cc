#include "src/plan/allocation_count_test.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

// tidy-allow(global): the replaced operators have no object to keep it in.
uint64_t allocation_count = 0;

}  // namespace

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocation_count;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(size_t bytes) {
  void* memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace byteps::plan {

uint64_t AllocationCount() { return allocation_count; }

}  // namespace byteps::plan
