// The transport over TCP (src/transport/tcp/tcp_transport.h), which also connects processes of one
// host and one user through memory that they share.
//
// An address that begins with "@" leads through shared memory: "@name:port", port 0 = any free one.
// It is the name of an abstract Unix socket, which only processes in the same network namespace can
// reach, and which is gone with its listener. Only processes of one user are connected; who they
// are is proven on the connection, as on one of TCP. Such a connection is not encrypted: its bytes
// are in the memory of its two ends and nowhere else.
#pragma once

#include <memory>
#include <string>

#include "src/base/status.h"
#include "src/transport/tcp/tcp_transport.h"
#include "src/transport/transport.h"

namespace byteps::transport {

// As MakeTcpTransport and MakeTlsTransport. `user_timeout` holds for shared memory, too.
std::unique_ptr<Transport> MakeSharedTransport(const TcpOptions& options);
Result<std::unique_ptr<Transport>> MakeSharedTransport(const TcpOptions& options,
                                                       const TlsKey& key);

}  // namespace byteps::transport
