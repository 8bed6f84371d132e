// Finds the user of the process at the other end of a connection, if it is on this machine.
//
// The kernel tells the user: for a Unix socket directly, for TCP by the socket at the other end,
// which is on this machine then. So no process can pretend to belong to another user. (A process
// that passes on the bytes of others, such as a proxy, counts as its own user.)
#pragma once

#include <sys/types.h>

#include <optional>

#include "src/base/status.h"

namespace byteps::transport {

// Returns the user. Nothing: the other end is on another machine or in another network namespace,
// or has closed, or this system does not tell. Asks the kernel, which answers at once. REQUIRES:
// `socket` is connected.
std::optional<uid_t> OwnerOfPeer(int socket);

// Implements Connection::CheckSameUser for a socket.
Status CheckSameUser(int socket);

namespace internal {
// The two ways to ask about TCP; the second one is for kernels without the first. For tests.
std::optional<uid_t> OwnerByNetlink(int socket);
std::optional<uid_t> OwnerByTable(int socket);
}  // namespace internal

}  // namespace byteps::transport
