// Asks the kernel about the path of a TCP socket.
#pragma once

#include <string>

#include "src/base/status.h"
#include "src/base/time.h"

namespace byteps::transport {

// Returns the least round-trip time: of the last ten seconds if the congestion control is bbr,
// which empties the path's queues to measure it, otherwise of the last minutes. Zero: not known, or
// no socket of TCP.
Duration RoundTripOf(int socket);

// Returns the congestion control; empty: not known, or no socket of TCP.
std::string CongestionControlOf(int socket);

// Sets how long data, or a probe, may stay unacknowledged until the connection is lost.
void SetUserTimeout(int socket, Duration timeout);

// Sets the congestion control of bytes that are sent from now on. The error comes from the system.
Status SetCongestionControl(int socket, const std::string& name);

}  // namespace byteps::transport
