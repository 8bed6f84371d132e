#include "src/transport/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

namespace byteps::transport {
namespace {

Status BadAddress(std::string_view text, std::string_view why) {
  return {StatusCode::kInvalidArgument, "cannot read the address '" + std::string(text) +
                                            "': " + std::string(why) +
                                            "; write host:port, or [address]:port for IPv6"};
}

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Copies the text, because inet_pton needs a terminated string.
bool ParseLiteral(int family, std::string_view text, void* out) {
  return inet_pton(family, std::string(text).c_str(), out) == 1;
}

bool IsLinkLocal(const IpAddress& address) {
  if (address.bits == 32) return address.bytes[0] == 169 && address.bytes[1] == 254;
  return address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0) == 0x80;
}

std::string Describe(std::span<const InterfaceAddress> candidates) {
  if (candidates.empty()) return "no network interface of this host is up";
  std::string text = "this host has ";
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i > 0) text += ", ";
    text += candidates[i].address + " (" + candidates[i].interface + ")";
  }
  return text;
}

std::string DescribeWishes(const AddressChoice& choice) {
  std::string text;
  auto add = [&](std::string_view what, const std::string& value) {
    if (value.empty()) return;
    text += (text.empty() ? "" : " and ") + std::string(what) + " '" + value + "'";
  };
  add("the interface", choice.interface);
  add("the network", choice.cidr);
  return text.empty() ? "any wish" : text;
}

// A candidate with its rank; smaller is better.
struct Ranked {
  const InterfaceAddress* candidate = nullptr;
  int rank = 0;
};

int RankOf(const InterfaceAddress& candidate, const IpAddress& address, bool on_route) {
  if (on_route) return 0;
  int rank = address.bits == 32 ? 1 : 2;
  if (IsLinkLocal(address)) rank += 2;
  if (candidate.loopback) rank += 4;
  return rank;
}

// Returns whether other hosts may find the way to the address.
bool MayBeReached(std::string_view text) {
  Result<IpAddress> address = ParseIpAddress(text);
  return address.ok() && !IsLoopback(address.value()) && !IsLinkLocal(address.value());
}

}  // namespace

Result<HostPort> ParseHostPort(std::string_view text) {
  std::string_view host;
  std::string_view port;
  if (text.starts_with('[')) {
    size_t close = text.find(']');
    if (close == std::string_view::npos) return BadAddress(text, "']' is missing");
    host = text.substr(1, close - 1);
    if (host.empty()) return BadAddress(text, "nothing stands between the brackets");
    std::string_view rest = text.substr(close + 1);
    if (!rest.starts_with(':')) return BadAddress(text, "the port is missing");
    port = rest.substr(1);
  } else {
    size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return BadAddress(text, "the port is missing");
    host = text.substr(0, colon);
    if (host.find(':') != std::string_view::npos) {
      return BadAddress(text, "an IPv6 address needs brackets");
    }
    port = text.substr(colon + 1);
  }
  auto number = ParseNumber<uint16_t>(port);
  if (!number) return BadAddress(text, "the port is not a number from 0 to 65535");
  return HostPort{std::string(host), *number};
}

std::string FormatHostPort(std::string_view host, uint16_t port) {
  std::string text(host);
  if (host.find(':') != std::string_view::npos) text = "[" + text + "]";
  return text + ":" + std::to_string(port);
}

Result<IpAddress> ParseIpAddress(std::string_view text) {
  IpAddress address;
  if (ParseLiteral(AF_INET, text, address.bytes.data())) {
    address.bits = 32;
    return address;
  }
  if (!ParseLiteral(AF_INET6, text.substr(0, text.find('%')), address.bytes.data())) {
    return Status(StatusCode::kInvalidArgument,
                  "'" + std::string(text) + "' is neither an IPv4 nor an IPv6 address");
  }
  address.bits = 128;
  static constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (std::equal(kMapped.begin(), kMapped.end(), address.bytes.begin())) {
    IpAddress mapped;
    std::copy(address.bytes.begin() + 12, address.bytes.end(), mapped.bytes.begin());
    mapped.bits = 32;
    return mapped;
  }
  return address;
}

Result<Cidr> ParseCidr(std::string_view text) {
  size_t slash = text.find('/');
  Result<IpAddress> base = ParseIpAddress(text.substr(0, slash));
  if (!base.ok()) return base.status();
  Cidr cidr{base.value(), base->bits};
  if (slash == std::string_view::npos) return cidr;
  auto bits = ParseNumber<int>(text.substr(slash + 1));
  if (!bits || *bits < 0 || *bits > base->bits) {
    return Status(StatusCode::kInvalidArgument,
                  "'" + std::string(text) +
                      "' is not a network: the number behind '/' must be 0 to " +
                      std::to_string(base->bits));
  }
  cidr.prefix_bits = *bits;
  return cidr;
}

bool IsLoopback(const IpAddress& address) {
  if (address.bits == 32) return address.bytes[0] == 127;
  auto last = address.bytes.begin() + 15;
  return *last == 1 && std::all_of(address.bytes.begin(), last, [](uint8_t b) { return b == 0; });
}

bool IsLoopbackHost(std::string_view host) {
  Result<IpAddress> address = ParseIpAddress(host);
  return host == "localhost" || (address.ok() && IsLoopback(address.value()));
}

bool Contains(const Cidr& cidr, const IpAddress& address) {
  if (cidr.base.bits != address.bits) return false;
  for (int bit = 0; bit < cidr.prefix_bits; ++bit) {
    auto mask = static_cast<uint8_t>(0x80 >> (bit % 8));
    auto byte = static_cast<size_t>(bit / 8);
    if ((cidr.base.bytes[byte] & mask) != (address.bytes[byte] & mask)) return false;
  }
  return true;
}

Result<std::string> PickAddress(const AddressChoice& choice,
                                std::span<const InterfaceAddress> candidates,
                                std::string_view route_source) {
  std::optional<Cidr> network;
  if (!choice.cidr.empty()) {
    Result<Cidr> parsed = ParseCidr(choice.cidr);
    if (!parsed.ok()) return parsed.status();
    network = parsed.value();
  }
  Ranked best;
  for (const InterfaceAddress& candidate : candidates) {
    Result<IpAddress> address = ParseIpAddress(candidate.address);
    if (!address.ok()) continue;
    if (!candidate.interface.starts_with(choice.interface)) continue;
    if (network && !Contains(*network, address.value())) continue;
    int rank = RankOf(candidate, address.value(), candidate.address == route_source);
    if (best.candidate == nullptr || rank < best.rank) best = {&candidate, rank};
  }
  if (best.candidate == nullptr) {
    return Status(
        StatusCode::kInvalidArgument,
        "no address of this host meets " + DescribeWishes(choice) + ": " + Describe(candidates));
  }
  return best.candidate->address;
}

Announcement PickAnnouncement(std::string_view root_host, std::string_view local,
                              std::string_view outward,
                              std::span<const InterfaceAddress> candidates) {
  Result<IpAddress> own_end = ParseIpAddress(local);
  if (!own_end.ok() || !IsLoopback(own_end.value())) {
    return {std::string(local), "the route to the scheduler starts there"};
  }
  if (IsLoopbackHost(root_host)) {
    return {std::string(local), "the scheduler's address is of this machine alone"};
  }
  std::string because = "'" + std::string(root_host) +
                        "' stands for loopback on this machine, where no other comes; ";
  if (MayBeReached(outward)) {
    return {std::string(outward), because + "the way to other networks starts there"};
  }
  Result<std::string> picked = PickAddress({}, candidates, "");
  if (picked.ok() && MayBeReached(picked.value())) {
    return {picked.value(), because + "it is the first of an interface that is up"};
  }
  return {std::string(local), because + "but this machine has no other address"};
}

}  // namespace byteps::transport
