// What the kernel knows of the path that a TCP socket uses.
#pragma once

#include <string>

#include "src/base/status.h"
#include "src/base/time.h"

namespace byteps::transport {

// The least time that some bytes and their acknowledgement took: of the last ten seconds where the
// congestion control is bbr, which empties the path's queues to know it, else of the last minutes.
// Zero: not known, or no socket of TCP.
Duration RoundTripOf(int socket);

// Empty: not known, or no socket of TCP.
std::string CongestionControlOf(int socket);

// How long data, or a probe, may stay unacknowledged until the connection is lost.
void SetUserTimeout(int socket, Duration timeout);

// For what is sent from now on. The error is the system's own.
Status SetCongestionControl(int socket, const std::string& name);

}  // namespace byteps::transport
