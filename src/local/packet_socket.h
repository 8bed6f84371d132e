// Packets between processes of one machine, over a Unix socket that keeps their borders and carries
// descriptors. The socket's name is abstract: it is no file, and is gone with its listener.
// Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/base/types.h"
#include "src/local/unique_fd.h"

namespace byteps::local {

// The most descriptors of one packet, just below the limit of the kernel.
inline constexpr size_t kPacketFdsMax = 250;
inline constexpr size_t kPacketBytesMax = 4096;

struct Packet {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> fds;
  // If set, this process had no room for some of the descriptors; `fds` has the others.
  bool lacks_fds = false;
};

// The process at the other end of a socket, as it was when the socket was made.
struct PeerProcess {
  int process = 0;  // 0: this container cannot see it
  uint32_t user = 0;
};

// Listens under `name`, which must be free: kDuplicateName if another process has it.
Result<UniqueFd> ListenPackets(const std::string& name);
// Connects to a listener. kUnavailable: nobody listens. Does not block.
Result<UniqueFd> ConnectPackets(const std::string& name);
// Accepts a waiting connection, if there is one; the other end may be a stranger. Does not block.
// kExhausted: the system has no descriptor for it.
Result<UniqueFd> AcceptPackets(int listener);
inline Result<UniqueFd> AcceptPackets(const UniqueFd& listener) {
  return AcceptPackets(listener.get());
}

PeerProcess PeerOf(const UniqueFd& socket);
// Returns whether the other end is a process of this user.
bool IsOfThisUser(const UniqueFd& socket);
// Returns "process 17 of user 1000", for people.
std::string ProcessText(const PeerProcess& peer);

// Sends a packet. Does not block. Borrows the descriptors. kExhausted: the packet does not fit into
// the socket. kPeerLost: the socket is closed. kUnavailable: more descriptors of this user wait in
// packets that nobody has read than the limit of this process allows (RLIMIT_NOFILE; Linux counts
// them for all processes of a user together), so there will be room later.
Status SendPacket(int socket, ConstByteSpan bytes, const std::vector<int>& fds = {});
inline Status SendPacket(const UniqueFd& socket, ConstByteSpan bytes,
                         const std::vector<int>& fds = {}) {
  return SendPacket(socket.get(), bytes, fds);
}
// Blocks until a packet is there. kPeerLost: the other end has closed. kDeadlineExceeded: the
// deadline has passed. kProtocol: the packet is too long.
Result<Packet> ReceivePacket(int socket, Time deadline);
inline Result<Packet> ReceivePacket(const UniqueFd& socket, Time deadline) {
  return ReceivePacket(socket.get(), deadline);
}

// Blocks until a descriptor can be read or is closed, or the deadline has passed. Returns for each
// descriptor, in order, whether it can be read or is closed.
std::vector<bool> PollReadable(const std::vector<int>& fds, Time deadline);

}  // namespace byteps::local
