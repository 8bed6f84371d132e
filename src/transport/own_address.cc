// Implements the functions of address.h that ask the system.
#include "src/transport/address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <tuple>
#include <utility>

namespace byteps::transport {
namespace {

std::string ErrorText(int error) { return std::generic_category().message(error); }

socklen_t LengthOf(const sockaddr* address) {
  return address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

// Returns the literal, with "%interface" for link-local IPv6; empty on failure.
std::string Literal(const sockaddr* address) {
  char text[NI_MAXHOST];
  int error =
      getnameinfo(address, LengthOf(address), text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text : "";
}

// Returns the number of bits of the address that belong to the network: the bits that are set in
// its mask.
int PrefixBits(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  const auto count = [](const auto& bytes) {
    int bits = 0;
    for (uint8_t byte : std::bit_cast<std::array<uint8_t, sizeof(bytes)>>(bytes)) {
      bits += std::popcount(byte);
    }
    return bits;
  };
  if (mask->sa_family == AF_INET6) {
    return count(reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr);
  }
  return count(reinterpret_cast<const sockaddr_in*>(mask)->sin_addr);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// Connects a datagram socket, which chooses the route and sends nothing.
Result<std::string> SourceTowards(const addrinfo& target) {
  Descriptor probe(socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t own_size = sizeof(own);
  auto* own_address = reinterpret_cast<sockaddr*>(&own);
  if (probe.get() < 0 || connect(probe.get(), target.ai_addr, target.ai_addrlen) != 0 ||
      getsockname(probe.get(), own_address, &own_size) != 0) {
    return Status(StatusCode::kUnavailable, ErrorText(errno));
  }
  return Literal(own_address);
}

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Result<Addresses> Resolve(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* head = nullptr;
  const char* name = host.empty() ? nullptr : host.c_str();
  int error = getaddrinfo(name, std::to_string(port).c_str(), &hints, &head);
  if (error != 0) {
    return Status(StatusCode::kUnavailable, "cannot resolve '" + host +
                                                "': " + gai_strerror(error) +
                                                "; check the name and the resolver");
  }
  return Addresses(head, freeaddrinfo);
}

// Returns the address from which the way out of this host starts; empty if there is no way.
std::string OutwardSource() {
  // These addresses are for documents (RFC 5737, RFC 3849). No network has them, so the default
  // route decides.
  for (const char* target : {"192.0.2.1:9", "[2001:db8::1]:9"}) {
    Result<std::string> source = RouteSource(target);
    if (source.ok()) return source.value();
  }
  return {};
}

}  // namespace

Result<std::vector<InterfaceAddress>> ListAddresses() {
  ifaddrs* head = nullptr;
  if (getifaddrs(&head) != 0) {
    return Status(StatusCode::kUnavailable,
                  "cannot list the network interfaces: " + ErrorText(errno));
  }
  std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(head, freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* entry = head; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    std::string literal = Literal(entry->ifa_addr);
    if (literal.empty()) continue;
    found.push_back({entry->ifa_name, literal, (entry->ifa_flags & IFF_LOOPBACK) != 0,
                     PrefixBits(entry->ifa_netmask)});
  }
  return found;
}

Result<std::string> RouteSource(const std::string& target) {
  Result<HostPort> parsed = ParseHostPort(target);
  if (!parsed.ok()) return parsed.status();
  // Some systems cannot connect a datagram socket to port 0; any other port does.
  Result<Addresses> addresses = Resolve(parsed->host, parsed->port == 0 ? 9 : parsed->port);
  if (!addresses.ok()) return addresses.status();
  Result<std::string> source = Status(StatusCode::kUnavailable, "no address");
  for (const addrinfo* entry = addresses->get(); entry != nullptr; entry = entry->ai_next) {
    source = SourceTowards(*entry);
    if (source.ok()) return source;
  }
  return Status(StatusCode::kUnavailable,
                "no route to " + target + ": " + source.status().message());
}

std::string ListenHost(const std::string& host) {
  Result<IpAddress> wanted = ParseIpAddress(host);
  if (!wanted.ok()) return "";
  if (IsLoopback(wanted.value())) return host;
  Result<std::vector<InterfaceAddress>> own = ListAddresses();
  if (!own.ok()) return "";
  for (const InterfaceAddress& one : own.value()) {
    Result<IpAddress> address = ParseIpAddress(one.address);
    if (address.ok() && address.value() == wanted.value()) return host;
  }
  return "";
}

Result<std::string> ChooseAddress(const AddressChoice& choice) {
  Result<std::vector<InterfaceAddress>> candidates = ListAddresses();
  if (!candidates.ok()) return candidates.status();
  bool wished = !choice.interface.empty() || !choice.cidr.empty();
  std::string source;
  if (!choice.target.empty()) {
    Result<std::string> route = RouteSource(choice.target);
    if (route.ok()) {
      // The kernel's answer need not be a candidate: with tunnels it may be an address of no
      // interface.
      if (!wished) return route;
      source = route.value();
    } else if (!wished) {
      return route;
    }
  }
  return PickAddress(choice, candidates.value(), source);
}

Announcement ChooseAnnouncement(const std::string& target, const std::string& local) {
  Result<HostPort> root = ParseHostPort(target);
  Result<std::vector<InterfaceAddress>> candidates = ListAddresses();
  std::span<const InterfaceAddress> found;
  if (candidates.ok()) found = candidates.value();
  return PickAnnouncement(root.ok() ? root->host : target, local, OutwardSource(), found);
}

Result<std::string> ResolveHost(const std::string& host, const std::string& target) {
  if (ParseIpAddress(host).ok()) return host;
  Result<Addresses> addresses = Resolve(host, 9);
  if (!addresses.ok()) return addresses.status();
  Result<std::vector<InterfaceAddress>> own = ListAddresses();
  if (!own.ok()) return own.status();
  std::string best;
  int rank_of_best = 4;
  for (const addrinfo* entry = addresses->get(); entry != nullptr; entry = entry->ai_next) {
    std::string literal = Literal(entry->ai_addr);
    Result<IpAddress> address = ParseIpAddress(literal);
    if (!address.ok()) continue;
    bool here = std::any_of(own->begin(), own->end(),
                            [&](const InterfaceAddress& one) { return one.address == literal; });
    int rank = (IsLoopback(address.value()) ? 2 : 0) + (here ? 0 : 1);
    if (rank < rank_of_best) std::tie(best, rank_of_best) = std::pair(literal, rank);
  }
  if (rank_of_best < 2) return best;
  Result<std::string> source = RouteSource(target);
  Result<IpAddress> own_end = source.ok() ? ParseIpAddress(source.value()) : source.status();
  if (!best.empty() && own_end.ok() && IsLoopback(own_end.value())) {
    return ChooseAnnouncement(target, best).address;
  }
  return Status(StatusCode::kInvalidArgument,
                "'" + host + "' stands for " + (best.empty() ? "nothing" : best) +
                    " here, where other hosts cannot reach this one; give an address");
}

}  // namespace byteps::transport
