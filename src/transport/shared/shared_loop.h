// SharedLoop: a loop over TCP that also listens at, and connects to, processes of this host.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "src/transport/shared/shared_endpoint.h"
#include "src/transport/tcp/tcp_loop.h"

namespace byteps::transport {

class SharedLoop : public TcpLoop {
 public:
  using TcpLoop::TcpLoop;

  Result<std::unique_ptr<Listener>> Listen(
      const std::string& address,
      std::function<void(std::unique_ptr<Connection>)> accept) override {
    if (!IsSharedAddress(address)) return TcpLoop::Listen(address, std::move(accept));
    return ListenShared(*this, address, std::move(accept));
  }

  // Needs no timeout, because nothing here takes time: the handshake finds out whether the other
  // end accepts the memory.
  void ConnectFrom(const std::string& own, const std::string& address, Duration timeout,
                   std::function<void(Result<std::unique_ptr<Connection>>)> done) override {
    if (!IsSharedAddress(address)) {
      return TcpLoop::ConnectFrom(own, address, timeout, std::move(done));
    }
    ConnectShared(*this, address, std::move(done));
  }
};

}  // namespace byteps::transport
