// The transport over TCP and shared memory (src/transport/shared/shared_transport.h), whose
// connections go on over RDMA when a device serves them.
//
// A connection begins as TCP. When the end that accepted it has moved it to another loop, which is
// what servers do with connections for data, this end offers the other end RDMA. Data flows over
// TCP until messages have passed between the two devices in both directions, and for good if they
// do not (docs/decisions/0055-connections-that-change.md).
#pragma once

#include <memory>
#include <string>

#include "src/base/status.h"
#include "src/transport/rdma/rdma_options.h"
#include "src/transport/tcp/tcp_transport.h"
#include "src/transport/transport.h"

namespace byteps::transport {

class RdmaTransport : public Transport {
 public:
  // Returns ok if this host has a device that the options allow. kUnavailable: it has none; the
  // text says why, and what to do. Loads the library of the options. Blocks for milliseconds.
  virtual Status Look() = 0;
};

// Makes a transport. Both ends of a connection must have this transport, whether they want RDMA or
// not. Its loops, which copy the options, can be used as transport.h says.
std::unique_ptr<RdmaTransport> MakeRdmaTransport(const TcpOptions& tcp, const RdmaOptions& rdma);

}  // namespace byteps::transport
