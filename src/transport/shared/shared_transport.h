// The transport over TCP (src/transport/tcp/tcp_transport.h), which also connects processes of one
// host and one user through memory that they share.
//
// An address that begins with "@" leads through shared memory: "@name:port", port 0 = any free one.
// It is the name of an abstract Unix socket, which only processes in the same network namespace can
// reach, and which is gone with its listener. The transport connects only processes of one user.
// They prove their identity on the connection, like processes that use TCP. Such a connection is
// not encrypted: its bytes are only in the memory of its two ends.
#pragma once

#include <memory>
#include <string>

#include "src/base/status.h"
#include "src/transport/tcp/tcp_transport.h"
#include "src/transport/transport.h"

namespace byteps::transport {

// Do the same as MakeTcpTransport and MakeTlsTransport. `user_timeout` holds for shared memory,
// too.
std::unique_ptr<Transport> MakeSharedTransport(const TcpOptions& options);
Result<std::unique_ptr<Transport>> MakeSharedTransport(const TcpOptions& options,
                                                       const TlsKey& key);

}  // namespace byteps::transport
