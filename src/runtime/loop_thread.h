// Threads that run loops: how they come to their end, and how others ask them.
#pragma once

#include <functional>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

// Runs `loop` on the calling thread until it is stopped (kOk), or until something is thrown that
// nobody catches: then it says what. kExhausted: there is no memory, and none is taken; kInternal:
// anything else.
//
// After an error what the loop carried may stand in the middle of a step: it can be destroyed, and
// connections can be closed, but nothing else may be asked of it.
Status RunLoop(transport::Loop& loop) noexcept;

// Runs `work` on the loop's thread and returns what it says; kDeadlineExceeded: the loop has not
// come to it within `limit`, and never will. Waits up to twice the limit for work that has begun.
Status AskLoop(transport::Loop& loop, Duration limit, std::function<Status()> work);

// Posts the last work of all: where there is no memory for it the loop stops instead.
void PostOrStop(transport::Loop& loop, std::function<void()> work) noexcept;

}  // namespace byteps::runtime
