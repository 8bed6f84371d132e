// Accepts TCP connections.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/transport/tcp/tcp_loop.h"
#include "src/transport/transport.h"

namespace byteps::transport {

// Implements Loop::Listen.
Result<std::unique_ptr<Listener>> ListenTcp(
    TcpLoop& loop, const std::string& address,
    std::function<void(std::unique_ptr<Connection>)> accept);

}  // namespace byteps::transport
