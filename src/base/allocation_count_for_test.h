// How often this test program has called operator new, to check "allocates nothing", and a way to
// let it fail. A program that asks is built with allocation_count_for_test.cc, which replaces the
// global operators.
#pragma once

#include <cstddef>
#include <cstdint>

namespace byteps {

// Of all threads, from the start. Any thread.
uint64_t AllocationCount();

// While it lives, operator new fails for `bytes_min` bytes and more, on all threads, once it has
// succeeded for them `successes` times. One at a time.
class NoMemory {
 public:
  explicit NoMemory(uint64_t successes, size_t bytes_min = 0);
  ~NoMemory();
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
};

}  // namespace byteps
