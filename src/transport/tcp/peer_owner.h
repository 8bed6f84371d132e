// To which user the process at the other end of a connection belongs, if it is on this machine.
//
// The kernel says it: of a Unix socket directly, of TCP by the socket at the other end, which is
// one of this machine then. So no process can pretend to be another user's. (A process that passes
// on what others say, such as a proxy, counts as its own user.)
#pragma once

#include <sys/types.h>

#include <optional>

#include "src/base/status.h"

namespace byteps::transport {

// Nothing: the other end is on another machine or in another network namespace, or has closed, or
// this system does not say it. Asks the kernel, which answers at once. `socket` is connected.
std::optional<uid_t> OwnerOfPeer(int socket);

// Connection::CheckSameUser of a socket.
Status CheckSameUser(int socket);

namespace internal {
// The two ways to ask about TCP; the second one where the kernel has not the first. For tests.
std::optional<uid_t> OwnerByNetlink(int socket);
std::optional<uid_t> OwnerByTable(int socket);
}  // namespace internal

}  // namespace byteps::transport
