// The options of one TCP socket.
#pragma once

#include <cstddef>
#include <system_error>

#include <asio/ip/tcp.hpp>

#include "src/base/status.h"
#include "src/transport/tcp/tcp_transport.h"

namespace byteps::transport {

// Makes the descriptor of an Asio socket or acceptor. Unlike Asio's function it sets close-on-exec
// from the beginning, because a program that the user starts from here must not hold connections
// open.
std::error_code OpenSocket(asio::ip::tcp::socket& socket, const asio::ip::tcp& protocol);
std::error_code OpenSocket(asio::ip::tcp::acceptor& acceptor, const asio::ip::tcp& protocol);

// Sets the options on a socket that listens, connects or is connected. Ignores options that the
// system does not take, except for the congestion control. kInvalidArgument: the system does not
// have it.
Status ApplySocketOptions(int socket, const TcpOptions& options);

// Sets IP_BIND_ADDRESS_NO_PORT: a socket that is bound to an address gets its port when it
// connects.
void SetPortLater(int socket);

// Sets SO_RCVLOWAT: a reader is woken when so many bytes are there.
void SetReceiveLowWater(int socket, size_t bytes);

}  // namespace byteps::transport
