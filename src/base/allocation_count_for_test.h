// How often this test program has called operator new, to check "allocates nothing". A program that
// asks is built with allocation_count_for_test.cc, which replaces the global operators.
#pragma once

#include <cstdint>

namespace byteps {

// Of all threads, from the start. Any thread.
uint64_t AllocationCount();

}  // namespace byteps
