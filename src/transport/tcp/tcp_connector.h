// Makes one outgoing TCP connection.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/transport/tcp/tcp_loop.h"
#include "src/transport/transport.h"

namespace byteps::transport {

// Implements Loop::ConnectFrom. The loop calls `done` exactly once.
void ConnectTcp(TcpLoop& loop, const std::string& own, const std::string& address, Duration timeout,
                std::function<void(Result<std::unique_ptr<Connection>>)> done);

}  // namespace byteps::transport
