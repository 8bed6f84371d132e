// Tells whether this process is a copy, made by fork, of one that something belongs to. Any thread.
#pragma once

#include <cstdint>

#include "src/base/status.h"

namespace byteps::session {

// From now on forks are counted: to be called before ForkCount counts. kExhausted: no memory.
Status CountForks();

// The forks between the process that first called CountForks and this one: equal to what it was
// when something was made, it is the same process. Costs a load; to ask the system would cost a
// call.
uint64_t ForkCount();

}  // namespace byteps::session
