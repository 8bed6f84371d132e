// The transport inside one process: loops are threads, frames go from queue to queue.
//
// For tests and for jobs whose parts all live in one process. Addresses are "inproc:port". The
// transport ignores the host part, and ports are known within one Transport only.
#pragma once

#include <memory>

#include "src/transport/transport.h"

namespace byteps::transport {

std::unique_ptr<Transport> MakeInprocTransport();

}  // namespace byteps::transport
