#include "src/transport/rdma/rdma_transport.h"

#include <atomic>
#include <utility>

#include "src/transport/rdma/open_devices.h"
#include "src/transport/rdma/rdma_loop.h"
#include "src/transport/rdma/registered_memory.h"
#include "src/transport/rdma/switching_channel.h"
#include "src/transport/tcp/plain_channel.h"

namespace byteps::transport {
namespace {

class SwitchingChannels final : public ByteChannels {
 public:
  std::unique_ptr<ByteChannel> Make(int socket, Side side) const override {
    return std::make_unique<SwitchingChannel>(socket, plain_->Make(socket, side),
                                              side == Side::kAccepted);
  }

 private:
  const std::unique_ptr<ByteChannels> plain_ = MakePlainChannels();
};

class Rdma final : public RdmaTransport {
 public:
  Rdma(const TcpOptions& tcp, const RdmaOptions& rdma) : tcp_(tcp), rdma_(rdma), devices_(rdma) {}

  std::unique_ptr<Loop> MakeLoop() override {
    std::unique_ptr<RegisteredMemory> memory;
    if (rdma_.wanted) memory = std::make_unique<RegisteredMemory>(devices_.budget());
    RegisteredMemory* same = memory.get();
    return std::make_unique<RdmaLoop>(tcp_, channels_, rdma_, devices_, loops_++, std::move(memory),
                                      same);
  }

  Status Look() override { return devices_.Look(); }

 private:
  const TcpOptions tcp_;
  const RdmaOptions rdma_;
  const SwitchingChannels channels_;
  OpenDevices devices_;
  std::atomic<uint32_t> loops_ = 0;
};

}  // namespace

std::unique_ptr<RdmaTransport> MakeRdmaTransport(const TcpOptions& tcp, const RdmaOptions& rdma) {
  return std::make_unique<Rdma>(tcp, rdma);
}

}  // namespace byteps::transport
