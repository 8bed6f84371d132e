// The options of one TCP socket.
#pragma once

#include <cstddef>

#include "src/base/status.h"
#include "src/transport/tcp/tcp_transport.h"

namespace byteps::transport {

// Sets what `options` ask for on a socket that listens, connects or is connected. Best effort,
// except for the congestion control, which is kInvalidArgument when the system does not have it.
Status ApplySocketOptions(int socket, const TcpOptions& options);

// SO_RCVLOWAT: a reader is woken when so many bytes are there.
void SetReceiveLowWater(int socket, size_t bytes);

}  // namespace byteps::transport
