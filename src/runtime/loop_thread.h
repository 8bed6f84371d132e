// Threads that run loops: how such a thread ends, and how other threads ask it.
#pragma once

#include <functional>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

// Runs `loop` on the calling thread until the loop is stopped (kOk), or until something is thrown
// that nobody catches; then returns the reason. kExhausted: there is no memory, and RunLoop takes
// none; kInternal: anything else.
//
// After an error the objects of the loop may stand in the middle of a step. The caller may destroy
// them and close connections, but must not ask them anything else.
Status RunLoop(transport::Loop& loop) noexcept;

// Runs `work` on the loop's thread and returns its result. kDeadlineExceeded: the loop has not
// begun the work within `limit`, and never will. Blocks; for work that has begun, up to twice the
// limit.
Status AskLoop(transport::Loop& loop, Duration limit, std::function<Status()> work);

// Posts the last work of all; stops the loop instead if there is no memory for the work.
void PostOrStop(transport::Loop& loop, std::function<void()> work) noexcept;

}  // namespace byteps::runtime
