// Tells whether this process is a copy, made by fork, of the process that made an object. Any
// thread.
#pragma once

#include <cstdint>

#include "src/base/status.h"

namespace byteps::session {

// Begins to count forks; must be called before ForkCount is used. kExhausted: no memory.
Status CountForks();

// Returns the number of forks between the process that first called CountForks and this one. If it
// equals the number from the time when an object was made, this is the same process. Costs a load,
// where asking the system would cost a call.
uint64_t ForkCount();

}  // namespace byteps::session
