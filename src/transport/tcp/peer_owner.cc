#include "src/transport/tcp/peer_owner.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>

namespace byteps::transport {
namespace {

// The kernel's number of the state of TCP. Sockets in other states must not count: one that its
// process has closed, or that no process has accepted yet, counts as root's.
constexpr int kEstablished = 1;

// One end of a connection: an address of 4 or 16 bytes, and the port, both in network order.
struct End {
  std::array<uint32_t, 4> address{};  // IPv4 uses only the first
  in_port_t port = 0;
};

// A connection as the other end sees it.
struct Route {
  int family = AF_UNSPEC;
  End theirs, ours;
};

bool IsMapped(const in6_addr& address) { return IN6_IS_ADDR_V4MAPPED(&address); }

std::optional<Route> RouteOf(int socket) {
  sockaddr_in6 ours{};
  sockaddr_in6 theirs{};
  socklen_t ours_bytes = sizeof(ours);
  socklen_t theirs_bytes = sizeof(theirs);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&ours), &ours_bytes) != 0 ||
      getpeername(socket, reinterpret_cast<sockaddr*>(&theirs), &theirs_bytes) != 0) {
    return std::nullopt;
  }
  Route route;
  auto take = [&](const sockaddr_in6& from, End& end) {
    end.port = from.sin6_port;  // IPv4 has it at the same place
    if (from.sin6_family == AF_INET) {
      const auto& v4 = reinterpret_cast<const sockaddr_in&>(from);
      end.address[0] = v4.sin_addr.s_addr;
    } else if (IsMapped(from.sin6_addr)) {
      std::memcpy(end.address.data(), from.sin6_addr.s6_addr + 12, 4);
    } else {
      std::memcpy(end.address.data(), from.sin6_addr.s6_addr, 16);
    }
  };
  if (ours.sin6_family == AF_INET || ours.sin6_family == AF_INET6) {
    route.family = ours.sin6_family;
    if (route.family == AF_INET6 && IsMapped(ours.sin6_addr)) route.family = AF_INET;
    take(ours, route.ours);
    take(theirs, route.theirs);
    return route;
  }
  return std::nullopt;
}

struct Question {
  nlmsghdr header;
  inet_diag_req_v2 request;
};

// Closes its descriptor at the end of its scope.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

// Returns the socket from `local` to `remote`, if a process has it.
std::optional<inet_diag_msg> Ask(int family, const End& local, const End& remote) {
  const Descriptor kernel{socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)};
  if (kernel.number < 0) return std::nullopt;
  Question question{};
  question.header.nlmsg_len = sizeof(question);
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = static_cast<uint8_t>(family);
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.id.idiag_sport = local.port;
  question.request.id.idiag_dport = remote.port;
  std::ranges::copy(local.address, question.request.id.idiag_src);
  std::ranges::copy(remote.address, question.request.id.idiag_dst);
  question.request.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  question.request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (send(kernel.number, &question, sizeof(question), 0) < 0) return std::nullopt;
  // The kernel has answered before `send` returns.
  alignas(nlmsghdr) std::array<std::byte, 4096> bytes{};
  const ssize_t received = recv(kernel.number, bytes.data(), bytes.size(), MSG_DONTWAIT);
  constexpr size_t kAnswerBytes = NLMSG_LENGTH(sizeof(inet_diag_msg));
  if (received < static_cast<ssize_t>(kAnswerBytes)) return std::nullopt;
  nlmsghdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  inet_diag_msg answer;
  std::memcpy(&answer, bytes.data() + NLMSG_LENGTH(0), sizeof(answer));
  // If there is no such connection, the kernel answers with a socket that listens there.
  const bool is_it = answer.idiag_inode != 0 && answer.id.idiag_sport == local.port &&
                     answer.id.idiag_dport == remote.port;
  return is_it ? std::optional<inet_diag_msg>(answer) : std::nullopt;
}

// Returns whether this kernel answers such questions: if it does, it knows at least the own end.
bool KnowsByNetlink(int socket) {
  const std::optional<Route> route = RouteOf(socket);
  return route.has_value() && Ask(route->family, route->ours, route->theirs).has_value();
}

// Returns the text of /proc/net/tcp for this end: each word is a number of the machine.
std::string TableText(const End& end, int family, bool mapped) {
  std::string text;
  if (mapped) text = fmt::format("{:08X}{:08X}{:08X}", 0, 0, htonl(0xffff));
  const size_t words = family == AF_INET6 ? 4 : 1;
  for (size_t i = 0; i < words; ++i) text += fmt::format("{:08X}", end.address[i]);
  return text + fmt::format(":{:04X}", ntohs(end.port));
}

std::optional<uid_t> OwnerIn(const char* table, const std::string& theirs,
                             const std::string& ours) {
  std::ifstream file(table);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retransmits;
    uid_t user = 0;
    uint64_t timeout = 0;
    uint64_t inode = 0;
    if (!(words >> number >> local >> remote >> state >> queues >> timer >> retransmits)) continue;
    if (local != theirs || remote != ours) continue;
    if (!(words >> user >> timeout >> inode)) return std::nullopt;
    const bool established = std::strtol(state.c_str(), nullptr, 16) == kEstablished;
    return established && inode != 0 ? std::optional<uid_t>(user) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<uid_t> OwnerByCredentials(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return std::nullopt;
  return peer.uid;
}

int DomainOf(int socket) {
  int domain = AF_UNSPEC;
  socklen_t bytes = sizeof(domain);
  getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &bytes);
  return domain;
}

}  // namespace

std::optional<uid_t> internal::OwnerByNetlink(int socket) {
  const std::optional<Route> route = RouteOf(socket);
  if (!route.has_value()) return std::nullopt;
  const std::optional<inet_diag_msg> found = Ask(route->family, route->theirs, route->ours);
  const bool is_owned = found.has_value() && found->idiag_state == kEstablished;
  return is_owned ? std::optional<uid_t>(found->idiag_uid) : std::nullopt;
}

std::optional<uid_t> internal::OwnerByTable(int socket) {
  const std::optional<Route> route = RouteOf(socket);
  if (!route.has_value()) return std::nullopt;
  auto look = [&](const char* table, bool mapped) {
    return OwnerIn(table, TableText(route->theirs, route->family, mapped),
                   TableText(route->ours, route->family, mapped));
  };
  if (route->family == AF_INET6) return look("/proc/self/net/tcp6", false);
  const std::optional<uid_t> owner = look("/proc/self/net/tcp", false);
  return owner.has_value() ? owner : look("/proc/self/net/tcp6", true);
}

std::optional<uid_t> OwnerOfPeer(int socket) {
  if (DomainOf(socket) == AF_UNIX) return OwnerByCredentials(socket);
  const std::optional<uid_t> owner = internal::OwnerByNetlink(socket);
  if (owner.has_value() || KnowsByNetlink(socket)) return owner;
  return internal::OwnerByTable(socket);  // the text may have a line per connection of this machine
}

Status CheckSameUser(int socket) {
  const std::optional<uid_t> owner = OwnerOfPeer(socket);
  const uid_t own = geteuid();
  if (owner == own) return Status::Ok();
  if (owner.has_value()) {
    return {StatusCode::kRefused, fmt::format("it belongs to user {} of this machine, and this "
                                              "process to user {}",
                                              *owner, own)};
  }
  return {StatusCode::kRefused,
          "it runs on another machine, or this system does not say to which user it belongs"};
}

}  // namespace byteps::transport
