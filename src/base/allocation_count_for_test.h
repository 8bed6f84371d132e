// Counts the calls of operator new in a test program, to check "allocates nothing", and can let
// operator new fail. A program that includes this header is built with
// allocation_count_for_test.cc, which replaces the global operators, or under ThreadSanitizer with
// allocation_count_tsan_for_test.cc (${BYTEPS_ALLOCATION_COUNT} in CMake).
#pragma once

#include <cstddef>
#include <cstdint>

namespace byteps {

// Returns the number of calls on all threads since the program began. Any thread.
uint64_t AllocationCount();

// From now on calls from code between these two addresses are not counted. Any thread.
void DoNotCountCallers(uintptr_t begin, uintptr_t end);

// While a NoMemory lives, operator new fails on all threads for requests of at least `bytes_min`
// bytes, after `successes` such requests have succeeded. Only one NoMemory may live at a time.
class NoMemory {
 public:
  explicit NoMemory(uint64_t successes, size_t bytes_min = 0);
  ~NoMemory();
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
};

}  // namespace byteps
