// Listens for processes of this host, and connects to them, for loops that have shared memory.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/base/status.h"
#include "src/transport/tcp/tcp_loop.h"
#include "src/transport/transport.h"

namespace byteps::transport {

// Returns whether `address` leads through shared memory (shared_transport.h).
bool IsSharedAddress(const std::string& address);

// Implement Loop::Listen and Loop::Connect. REQUIRES: IsSharedAddress(address).
Result<std::unique_ptr<Listener>> ListenShared(
    TcpLoop& loop, const std::string& address,
    std::function<void(std::unique_ptr<Connection>)> accept);
void ConnectShared(TcpLoop& loop, const std::string& address,
                   std::function<void(Result<std::unique_ptr<Connection>>)> done);

}  // namespace byteps::transport
