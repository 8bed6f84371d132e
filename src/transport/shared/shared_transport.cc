#include "src/transport/shared/shared_transport.h"

#include <utility>

#include "src/transport/shared/shared_loop.h"
#include "src/transport/tcp/plain_channel.h"
#include "src/transport/tcp/tls_channel.h"

namespace byteps::transport {
namespace {

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
