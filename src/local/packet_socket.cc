#include "src/local/packet_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace byteps::local {
namespace {

constexpr int kWaiting = 128;             // connections that nobody has accepted
constexpr uint32_t kNoUser = UINT32_MAX;  // the kernel gives it to nobody

struct Address {
  sockaddr_un where = {};
  socklen_t bytes = 0;
};

// Makes an abstract address: a name that begins with a zero byte is no file.
Address AddressOf(const std::string& name) {
  Address address;
  address.where.sun_family = AF_UNIX;
  size_t length = std::min(name.size(), sizeof(address.where.sun_path) - 1);
  std::memcpy(address.where.sun_path + 1, name.data(), length);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

const sockaddr* Raw(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address.where);
}

UniqueFd NewSocket() {
  return UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool IsClosed(int error) { return error == EPIPE || error == ECONNRESET || error == ENOTCONN; }

Status Closed() { return {StatusCode::kPeerLost, "a process of this machine closed its socket"}; }

int MillisecondsUntil(Time deadline) {
  auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
}

std::vector<UniqueFd> FdsOf(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

Result<UniqueFd> ListenPackets(const std::string& name) {
  UniqueFd listener = NewSocket();
  if (!listener) return SystemError(StatusCode::kExhausted, "no Unix socket");
  Address address = AddressOf(name);
  if (bind(listener.get(), Raw(address), address.bytes) != 0) {
    return SystemError(errno == EADDRINUSE ? StatusCode::kDuplicateName : StatusCode::kExhausted,
                       "cannot listen for processes of this machine");
  }
  if (listen(listener.get(), kWaiting) != 0) {
    return SystemError(StatusCode::kExhausted, "cannot listen for processes of this machine");
  }
  return listener;
}

Result<UniqueFd> ConnectPackets(const std::string& name) {
  UniqueFd socket = NewSocket();
  if (!socket) return SystemError(StatusCode::kExhausted, "no Unix socket");
  Address address = AddressOf(name);
  if (connect(socket.get(), Raw(address), address.bytes) != 0) {
    return SystemError(StatusCode::kUnavailable, "no process of this machine listens");
  }
  return socket;
}

Result<UniqueFd> AcceptPackets(int listener) {
  UniqueFd socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) return socket;
  bool short_of = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
  return SystemError(short_of ? StatusCode::kExhausted : StatusCode::kUnavailable, "nobody waits");
}

PeerProcess PeerOf(const UniqueFd& socket) {
  ucred peer = {.pid = 0, .uid = kNoUser, .gid = 0};
  socklen_t bytes = sizeof(peer);
  getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes);
  return {peer.pid, peer.uid};
}

bool IsOfThisUser(const UniqueFd& socket) { return PeerOf(socket).user == geteuid(); }

std::string ProcessText(const PeerProcess& peer) {
  const std::string which = peer.process == 0 ? "a process of another container"
                                              : "process " + std::to_string(peer.process);
  return which + " of user " + std::to_string(peer.user);
}

Status SendPacket(int socket, ConstByteSpan bytes, const std::vector<int>& fds) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kPacketFdsMax * sizeof(int))> control = {};
  iovec data = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    size_t fd_bytes = fds.size() * sizeof(int);
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fd_bytes);
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fd_bytes);
    std::memcpy(CMSG_DATA(part), fds.data(), fd_bytes);
  }
  if (sendmsg(socket, &message, MSG_NOSIGNAL) >= 0) return Status::Ok();
  if (IsClosed(errno)) return Closed();
  return SystemError(errno == ETOOMANYREFS ? StatusCode::kUnavailable : StatusCode::kExhausted,
                     "cannot send to a process of this machine");
}

Result<Packet> ReceivePacket(int socket, Time deadline) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kPacketFdsMax * sizeof(int))> control = {};
  Packet packet;
  packet.bytes.resize(kPacketBytesMax);
  while (true) {
    iovec data = {packet.bytes.data(), packet.bytes.size()};
    msghdr message = {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (received > 0) {
      packet.fds = FdsOf(message);
      packet.lacks_fds = (message.msg_flags & MSG_CTRUNC) != 0;
      if ((message.msg_flags & MSG_TRUNC) != 0) {
        return Status(StatusCode::kProtocol, "a packet of a process of this machine is too long");
      }
      packet.bytes.resize(static_cast<size_t>(received));
      return packet;
    }
    if (received == 0 || IsClosed(errno)) return Closed();
    if (errno != EAGAIN && errno != EINTR) {
      return SystemError(StatusCode::kPeerLost, "cannot hear a process of this machine");
    }
    bool is_late =
        !PollReadable({socket}, deadline)[0] && std::chrono::steady_clock::now() >= deadline;
    if (is_late) {
      return Status(StatusCode::kDeadlineExceeded, "a process of this machine does not answer");
    }
  }
}

std::vector<bool> PollReadable(const std::vector<int>& fds, Time deadline) {
  std::vector<pollfd> polled;
  for (int fd : fds) polled.push_back({fd, POLLIN, 0});
  std::vector<bool> readable(fds.size(), false);
  if (poll(polled.data(), polled.size(), MillisecondsUntil(deadline)) <= 0) return readable;
  for (size_t i = 0; i < polled.size(); ++i) readable[i] = polled[i].revents != 0;
  return readable;
}

}  // namespace byteps::local
