#include "src/transport/shared/shared_transport.h"

#include <functional>
#include <utility>

#include "src/transport/shared/shared_endpoint.h"
#include "src/transport/tcp/plain_channel.h"
#include "src/transport/tcp/tcp_loop.h"
#include "src/transport/tcp/tls_channel.h"

namespace byteps::transport {
namespace {

class SharedLoop final : public TcpLoop {
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

class SharedTransport final : public Transport {
 public:
  SharedTransport(const TcpOptions& options, std::unique_ptr<ByteChannels> channels)
      : options_(options), channels_(std::move(channels)) {}
  std::unique_ptr<Loop> MakeLoop() override {
    return std::make_unique<SharedLoop>(options_, *channels_);
  }

 private:
  const TcpOptions options_;
  const std::unique_ptr<ByteChannels> channels_;  // for TCP
};

}  // namespace

std::unique_ptr<Transport> MakeSharedTransport(const TcpOptions& options) {
  return std::make_unique<SharedTransport>(options, MakePlainChannels());
}

Result<std::unique_ptr<Transport>> MakeSharedTransport(const TcpOptions& options,
                                                       const TlsKey& key) {
  Result<std::unique_ptr<ByteChannels>> channels = MakeTlsChannels(key);
  if (!channels.ok()) return channels.status();
  return std::unique_ptr<Transport>(
      std::make_unique<SharedTransport>(options, std::move(channels).value()));
}

}  // namespace byteps::transport
