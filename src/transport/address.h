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

// Chooses the address that this host tells others. Every field that is set must hold.
struct AddressChoice {
  // "host:port" of a process that must be reachable (the scheduler). If no field below is set, the
  // choice is the address from which the route to it starts.
  std::string target;
  std::string interface;  // the interface's name begins with this
  std::string cidr;       // the address lies in this
};

// Chooses among `candidates`. `route_source` is the address from which the route to the target
// starts, or empty. It wins if all fields of the choice hold for it, then IPv4, then the order of
// the candidates. Loopback and link-local addresses come last. An error lists the candidates.
Result<std::string> PickAddress(const AddressChoice& choice,
                                std::span<const InterfaceAddress> candidates,
                                std::string_view route_source);

// Returns the addresses of this host's interfaces that are up.
Result<std::vector<InterfaceAddress>> ListAddresses();

// Returns the own address from which the route to `target` ("host:port") starts. Sends nothing, but
// resolves a name, which may block.
Result<std::string> RouteSource(const std::string& target);

// Calls PickAddress with the addresses of this host. May block like RouteSource.
Result<std::string> ChooseAddress(const AddressChoice& choice);

// Returns whether the address is in 127.0.0.0/8 or is ::1.
bool IsLoopback(const IpAddress& address);

// Returns whether `host` is a literal of a loopback address, or "localhost".
bool IsLoopbackHost(std::string_view host);

// Returns the host to listen on. It is `host` if that is an address of this host, so that other
// processes reach this one only by the address that they are told. For a name, or for an address
// that another host forwards here, it is "": all addresses.
std::string ListenHost(const std::string& host);

// The address that a host tells others if no option chose one, and the reason for the log.
struct Announcement {
  std::string address;
  std::string why;
};

// `local` is this host's end of a connection to the scheduler, whose host the user gave as
// `root_host`. The choice is `local`, unless it is loopback and the user did not name loopback: if
// a machine's own name stands for 127.0.1.1, hosts that resolve the name to something else could
// not come here. Then the choice is `outward`, the address from which the way out of this host
// starts. If that is empty, it is the best of `candidates`, or `local` if all of them are loopback
// or link-local.
Announcement PickAnnouncement(std::string_view root_host, std::string_view local,
                              std::string_view outward,
                              std::span<const InterfaceAddress> candidates);

// Calls PickAnnouncement with the addresses of this host; `target` is the scheduler's "host:port".
// Sends and resolves nothing.
Announcement ChooseAnnouncement(const std::string& target, const std::string& local);

// Returns `host` itself if it is an address of any host, because another host may forward it here.
// If it is a name, returns an address of the name, one of this host if there is one. If a name
// stands for loopback and the way to `target` ("host:port") is not loopback, returns the address of
// ChooseAnnouncement. May block like RouteSource.
Result<std::string> ResolveHost(const std::string& host, const std::string& target);

}  // namespace byteps::transport
