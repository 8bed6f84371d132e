// Addresses of hosts and ports as text, and the choice of this host's own address.
//
// Everything but ChooseAddress, ChooseAnnouncement, ListAddresses, ListenHost, ResolveHost and
// RouteSource is pure.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace byteps::transport {

struct HostPort {
  std::string host;  // a name or a literal, without brackets; empty means all addresses
  uint16_t port = 0;
};

// Reads "host:port", "[v6]:port" and ":port".
Result<HostPort> ParseHostPort(std::string_view text);

// "host:port", with brackets around a host that has colons.
std::string FormatHostPort(std::string_view host, uint16_t port);

// An IPv4 or IPv6 address as bytes in network order.
struct IpAddress {
  std::array<uint8_t, 16> bytes{};
  int bits = 0;  // 32 or 128

  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

// Reads a literal; "%eth0" behind an IPv6 literal is allowed and ignored, and an IPv4 address
// that is written as IPv6 ("::ffff:10.0.0.1") counts as IPv4.
Result<IpAddress> ParseIpAddress(std::string_view text);

// A set of addresses with a common beginning: "10.0.0.0/8", "fd00::/8".
struct Cidr {
  IpAddress base;
  int prefix_bits = 0;
};
Result<Cidr> ParseCidr(std::string_view text);
bool Contains(const Cidr& cidr, const IpAddress& address);

// One address of one network interface of this host that is up.
struct InterfaceAddress {
  std::string interface;
  std::string address;
  bool loopback = false;
  int prefix_bits = 0;  // of its network
};

// Which of its addresses this host tells others. What is set restricts: all of it must hold.
struct AddressChoice {
  // "host:port" of a process that must be reachable (the scheduler): without any of the wishes
  // below, the address from which the route to it starts is taken.
  std::string target;
  std::string interface;  // the interface's name begins with this
  std::string cidr;       // the address lies in this
};

// The choice among `candidates`. `route_source` is the address from which the route to the target
// starts, or empty; it wins if it meets all wishes, then IPv4, then the order of the candidates.
// Loopback and link-local addresses are taken last. An error lists the candidates.
Result<std::string> PickAddress(const AddressChoice& choice,
                                std::span<const InterfaceAddress> candidates,
                                std::string_view route_source);

// The addresses of this host's interfaces that are up.
Result<std::vector<InterfaceAddress>> ListAddresses();

// The own address from which the route to `target` ("host:port") starts; sends nothing, but
// resolves a name, which may block.
Result<std::string> RouteSource(const std::string& target);

// PickAddress with what this host has. May block as RouteSource does.
Result<std::string> ChooseAddress(const AddressChoice& choice);

// 127.0.0.0/8 or ::1.
bool IsLoopback(const IpAddress& address);

// Whether `host` is a literal of a loopback address, or "localhost".
bool IsLoopbackHost(std::string_view host);

// Where to listen so that nobody is reached by addresses other than the one that others are told:
// `host` if it is an address of this host, else all (""): of a name, or of an address that another
// host forwards here.
std::string ListenHost(const std::string& host);

// What a host tells others when nobody wished for an address, and why, for its log.
struct Announcement {
  std::string address;
  std::string why;
};

// `local` is this host's end of a connection to the scheduler, whose host the user gave as
// `root_host`. It is taken, unless it is loopback and the user did not say so: where a machine's
// own name stands for 127.0.1.1, hosts that resolve it otherwise could not come here. Then it is
// `outward`, where the way out of this host starts, or empty; else the best of `candidates`; and
// `local` when all of them are loopback or link-local.
Announcement PickAnnouncement(std::string_view root_host, std::string_view local,
                              std::string_view outward,
                              std::span<const InterfaceAddress> candidates);

// PickAnnouncement with what this host has; `target` is the scheduler's "host:port". Sends and
// resolves nothing.
Announcement ChooseAnnouncement(const std::string& target, const std::string& local);

// `host` itself if it is an address, whoever has it (another host may forward it here); of a name
// an address that it stands for, of this host if there is one. If that is loopback: only if the way
// to `target` ("host:port") is loopback, too, and then what ChooseAnnouncement makes of it. May
// block as RouteSource does.
Result<std::string> ResolveHost(const std::string& host, const std::string& target);

}  // namespace byteps::transport
