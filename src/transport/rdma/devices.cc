#include "src/transport/rdma/devices.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace byteps::transport {
namespace {

// A port that may serve.
struct Candidate {
  const DeviceFacts* device;
  const PortFacts* port;

  std::string Name() const { return device->name + ":" + std::to_string(port->number); }
};

bool IsNamed(const Candidate& one, const std::string& name) {
  return name == one.device->name || name == one.Name();
}

std::string Joined(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& one : all) text += (text.empty() ? "" : ", ") + one;
  return text;
}

std::string NamesOf(const std::vector<DeviceFacts>& devices) {
  std::vector<std::string> names;
  for (const DeviceFacts& device : devices) names.push_back(device.name);
  return Joined(names);
}

Status None(const std::string& why) { return {StatusCode::kUnavailable, why}; }

std::vector<Candidate> CandidatesOf(const std::vector<DeviceFacts>& devices,
                                    const DeviceWish& wish) {
  std::vector<Candidate> all;
  for (const DeviceFacts& device : devices) {
    for (const PortFacts& port : device.ports) {
      Candidate one{&device, &port};
      bool serves = device.is_hardware || wish.takes_software;
      if (!wish.named.empty()) {
        serves =
            std::ranges::any_of(wish.named, [&](const auto& name) { return IsNamed(one, name); });
      }
      if (serves) all.push_back(one);
    }
  }
  return all;
}

// Says why no port may serve.
Status WhyNoCandidate(const std::vector<DeviceFacts>& devices, const DeviceWish& wish) {
  if (devices.empty()) {
    return None("this host shows no RDMA device; a container needs /dev/infiniband");
  }
  if (!wish.named.empty()) {
    return None("this host has no RDMA device " + Joined(wish.named) + "; it has " +
                NamesOf(devices));
  }
  return None(NamesOf(devices) + " is RDMA in software, which is slower than TCP");
}

const GidFacts* FindGid(const PortFacts& port, const Gid& gid) {
  auto found = std::ranges::find_if(
      port.gids, [&](const GidFacts& one) { return one.is_roce_v2 && one.gid == gid; });
  return found == port.gids.end() ? nullptr : &*found;
}

bool HasInterface(const PortFacts& port, const std::string& interface) {
  return !interface.empty() && std::ranges::count(port.interfaces, interface) > 0;
}

// Returns the port that is named for this lane, if the names are of ports of InfiniBand.
std::optional<Candidate> NamedForLane(const std::vector<Candidate>& candidates,
                                      const DeviceWish& wish) {
  if (wish.named.empty()) return std::nullopt;
  const std::string& name = wish.named[wish.lane % wish.named.size()];
  for (const Candidate& one : candidates) {
    if (one.port->link == LinkLayer::kInfiniBand && IsNamed(one, name)) return one;
  }
  return std::nullopt;
}

// Returns the GID by which this port serves the connection; null: it does not serve it.
const GidFacts* GidThatServes(const Candidate& one, const Gid& gid, const DeviceWish& wish) {
  if (one.port->link == LinkLayer::kEthernet) return FindGid(*one.port, gid);
  bool serves = HasInterface(*one.port, wish.interface) && !one.port->gids.empty();
  return serves ? &one.port->gids.front() : nullptr;
}

// A port that belongs to the connection, and its GID.
struct Match {
  Candidate at;
  const GidFacts* gid;
};

// Returns the first active port that belongs to the connection; if none is active, the first.
std::optional<Match> Find(const std::vector<Candidate>& candidates, const Gid& gid,
                          const DeviceWish& wish) {
  std::optional<Match> inactive;
  for (const Candidate& one : candidates) {
    const GidFacts* found = GidThatServes(one, gid, wish);
    if (found == nullptr) continue;
    if (one.port->is_active) return Match{one, found};
    if (!inactive.has_value()) inactive = Match{one, found};
  }
  if (inactive.has_value()) return inactive;
  std::optional<Candidate> named = NamedForLane(candidates, wish);
  if (!named.has_value() || named->port->gids.empty()) return std::nullopt;
  return Match{*named, &named->port->gids.front()};
}

}  // namespace

Result<Gid> GidOfAddress(const std::string& address) {
  Gid gid{};
  in_addr v4{};
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) {
    gid[10] = gid[11] = 0xff;
    std::memcpy(gid.data() + 12, &v4, sizeof(v4));
    return gid;
  }
  in6_addr v6{};
  const std::string without_zone = address.substr(0, address.find('%'));
  if (inet_pton(AF_INET6, without_zone.c_str(), &v6) == 1) {
    std::memcpy(gid.data(), &v6, sizeof(v6));
    return gid;
  }
  return Status(StatusCode::kInvalidArgument, address + " is no address");
}

Status CheckDevices(const std::vector<DeviceFacts>& devices, const DeviceWish& wish) {
  return CandidatesOf(devices, wish).empty() ? WhyNoCandidate(devices, wish) : Status::Ok();
}

Result<DeviceChoice> ChooseDevice(const std::vector<DeviceFacts>& devices, const DeviceWish& wish) {
  Result<Gid> gid = GidOfAddress(wish.address);
  if (!gid.ok()) return gid.status();
  std::vector<Candidate> candidates = CandidatesOf(devices, wish);
  if (candidates.empty()) return WhyNoCandidate(devices, wish);
  std::optional<Match> match = Find(candidates, gid.value(), wish);
  if (!match.has_value()) {
    std::vector<std::string> names;
    for (const Candidate& one : candidates) names.push_back(one.Name());
    return None("no RDMA device has the address " + wish.address + " (RoCE v2): " + Joined(names) +
                "; connect through an interface of such a device");
  }
  if (!match->at.port->is_active) {
    return None("the port " + match->at.Name() +
                " is not active; look at its cable and at its state in ibv_devinfo");
  }
  return DeviceChoice{match->at.device->name, match->at.port->number, match->gid->index,
                      match->gid->gid, match->at.port->link};
}

}  // namespace byteps::transport
