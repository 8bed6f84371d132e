// The RDMA transport over the stand-in for libibverbs, which must have no reason to complain when
// all is over.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "src/transport/rdma/rdma_host_for_test.h"
#include "src/transport/rdma/rdma_transport.h"

namespace byteps::transport {

// The transport over the stand-in, which must have no reason to complain when all is over. Without
// what `prepare` does, over a device (TEST_RDMA_ADDRESS).
class OverStandin final : public Transport {
 public:
  using Prepare = std::function<void(standin::Control&)>;

  explicit OverStandin(RdmaOptions options, const Prepare& prepare = nullptr,
                       const TcpOptions& tcp = {}) {
    options.wanted = options.takes_software = true;
    options.library = standin::LibraryPath();
    if (prepare && standin::RealAddress().empty()) prepare(library_.control());
    real_ = MakeRdmaTransport(tcp, options);
  }
  std::unique_ptr<Loop> MakeLoop() override { return real_->MakeLoop(); }
  standin::Control& control() { return library_.control(); }

 private:
  StandinLibrary library_;
  std::unique_ptr<RdmaTransport> real_;
};

}  // namespace byteps::transport
