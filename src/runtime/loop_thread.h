// The end of a thread that runs a loop, when nobody has stopped it.
#pragma once

#include "src/base/status.h"
#include "src/transport/transport.h"

namespace byteps::runtime {

// Runs `loop` on the calling thread until it is stopped (kOk), or until something is thrown that
// nobody catches: then it says what. kExhausted: there is no memory, and
// none is taken; kInternal: anything else.
//
// After an error what the loop carried may stand in the middle of a step: it can be destroyed, and
// connections can be closed, but nothing else may be asked of it.
Status RunLoop(transport::Loop& loop) noexcept;

}  // namespace byteps::runtime
