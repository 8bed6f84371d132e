// How often this test program has called operator new, to check "allocates nothing".
#pragma once

#include <cstdint>

namespace byteps::plan {

uint64_t AllocationCount();

}  // namespace byteps::plan
