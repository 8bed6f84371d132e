#include "src/session/network_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "src/plan/network_threads.h"

namespace byteps::session {
namespace {

using transport::InterfaceAddress;

bool IsUsable(const InterfaceAddress& one, const std::optional<transport::Cidr>& network) {
  // Refuses a link-local address, which would need the interface's name of the other host.
  if (one.address.find('%') != std::string::npos) return false;
  const Result<transport::IpAddress> address = transport::ParseIpAddress(one.address);
  return address.ok() && (!network.has_value() || transport::Contains(*network, address.value()));
}

NetworkLink LinkOf(const config::Options& options, const HostNetwork& host,
                   const std::string& interface) {
  NetworkLink link;
  link.interface = interface;
  link.mbit = options.link_mbit > 0 ? static_cast<uint64_t>(options.link_mbit)
                                    : host.machine.LinkMbit(interface);
  if (options.numa) link.cores = host.machine.CoresNear(interface);
  return link;
}

Status NoAddress(const config::Options& options, const HostNetwork& host,
                 const std::string& interface) {
  std::string here;
  for (const InterfaceAddress& one : host.addresses) {
    here += (here.empty() ? "" : ", ") + one.interface + " " + one.address;
  }
  const std::string network =
      options.address_cidr.empty() ? "" : " in the network " + options.address_cidr;
  return {StatusCode::kInvalidArgument, "option interfaces (BYTEPS_INTERFACES): '" + interface +
                                            "' has no address that others can use" + network +
                                            "; this host has " + (here.empty() ? "none" : here)};
}

Result<std::vector<NetworkLink>> NamedLinks(const config::Options& options,
                                            const HostNetwork& host) {
  std::optional<transport::Cidr> network;
  if (!options.address_cidr.empty()) {
    const Result<transport::Cidr> parsed = transport::ParseCidr(options.address_cidr);
    if (!parsed.ok()) return parsed.status();
    network = parsed.value();
  }
  std::vector<NetworkLink> links;
  for (const std::string& name : config::Interfaces(options)) {
    NetworkLink link = LinkOf(options, host, name);
    for (const InterfaceAddress& one : host.addresses) {
      if (one.interface != name || !IsUsable(one, network)) continue;
      link.addresses.push_back({one.address, one.prefix_bits});
    }
    if (link.addresses.empty()) return NoAddress(options, host, name);
    links.push_back(std::move(link));
  }
  return links;
}

// Returns the interface on the route; an unknown link if the route is not known.
NetworkLink LinkOnRoute(const config::Options& options, const HostNetwork& host) {
  for (const InterfaceAddress& one : host.addresses) {
    if (one.address == host.route && !one.loopback) return LinkOf(options, host, one.interface);
  }
  return LinkOf(options, host, "");
}

plan::NetworkShare ShareOf(const config::Options& options, const HostNetwork& host,
                           const std::vector<NetworkLink>& links) {
  plan::NetworkShare share;
  share.links = static_cast<uint32_t>(links.size());
  share.cores = host.cores;
  // The workers of a machine that sum together have the lanes of only one of them.
  if (options.role == Role::kWorker && !config::IsOneOfMachine(options)) {
    share.cores = std::max(host.cores / static_cast<uint32_t>(options.local_size), 1U);
  }
  for (const NetworkLink& link : links) share.link_mbit = std::max(share.link_mbit, link.mbit);
  return share;
}

// Supposes that a server is like this host, because nobody knows more before the job has begun.
uint32_t LeastShards(const config::Options& options, plan::NetworkShare share) {
  share.cores = UINT32_MAX;
  const auto servers = static_cast<uint32_t>(std::max<int64_t>(options.num_server, 1));
  return servers * plan::ChooseShards(share).count;
}

std::string TextOf(const std::vector<NetworkLink>& links) {
  std::string text;
  for (const NetworkLink& link : links) {
    if (link.interface.empty()) continue;
    text += "; " + link.interface;
    for (const runtime::OwnAddress& own : link.addresses) text += " " + own.address;
    text += link.mbit == 0 ? " (rate unknown)" : " (" + std::to_string(link.mbit) + " Mbit/s)";
    if (!link.cores.empty()) text += " near cores " + topology::FormatCores(link.cores);
  }
  return text;
}

}  // namespace

// Resolves no name, which may take long: supposes that the way to a named host is the way out of
// this host.
HostNetwork LookAround(const config::Options& options) {
  HostNetwork host;
  Result<std::vector<InterfaceAddress>> addresses = transport::ListAddresses();
  if (addresses.ok()) host.addresses = std::move(addresses).value();
  const std::string root = config::RootAddress(options);
  std::string local = "127.0.0.1";
  if (transport::ParseIpAddress(options.root_host).ok()) {
    Result<std::string> source = transport::RouteSource(root);
    if (source.ok()) local = std::move(source).value();
  }
  host.route = transport::ChooseAnnouncement(root, local).address;
  host.cores = topology::UsableCores(host.machine);
  return host;
}

Result<NetworkPlan> PlanNetwork(const config::Options& options, const HostNetwork& host) {
  NetworkPlan made;
  made.named = !options.interfaces.empty();
  if (made.named) {
    Result<std::vector<NetworkLink>> links = NamedLinks(options, host);
    if (!links.ok()) return links.status();
    made.links = std::move(links).value();
  } else {
    made.links.push_back(LinkOnRoute(options, host));
  }
  const bool worker = options.role == Role::kWorker;
  const int64_t told = worker ? options.lanes : options.server_shards;
  const std::string_view what = worker ? "lanes" : "shards";
  const plan::NetworkShare share = ShareOf(options, host, made.links);
  std::string why;
  if (told > 0) {
    made.threads = static_cast<uint32_t>(told);
    why = worker ? "as BYTEPS_LANES says" : "as BYTEPS_SERVER_SHARDS says";
  } else {
    const plan::NetworkThreads chosen =
        worker ? plan::ChooseLanes(share, LeastShards(options, share)) : plan::ChooseShards(share);
    made.threads = chosen.count;
    why = plan::WhyText(chosen, share);
    if (!worker) {
      const auto servers = static_cast<uint32_t>(std::max<int64_t>(options.num_server, 1));
      made.far_threads = plan::ChooseFarShards(share, servers);
    }
  }
  if (made.threads < made.links.size()) {
    made.warning = std::to_string(made.links.size()) + " interfaces (BYTEPS_INTERFACES) share " +
                   std::to_string(made.threads) + " " + std::string(what) +
                   ", so some of them carry nothing; leave the number of " + std::string(what) +
                   " to auto, or give each interface one";
  }
  made.text =
      std::string(what) + ": " + std::to_string(made.threads) + ", " + why + TextOf(made.links);
  return made;
}

std::vector<std::string> AnnouncedBy(const NetworkPlan& plan, std::string_view route) {
  std::vector<std::string> announced;
  if (!plan.named) return announced;
  for (const NetworkLink& link : plan.links) {
    const auto rank = [&](const runtime::OwnAddress& own) {
      return own.address == route ? 0 : own.address.find(':') == std::string::npos ? 1 : 2;
    };
    announced.push_back(std::ranges::min_element(link.addresses, {}, rank)->address);
  }
  return announced;
}

uint32_t DeclaredMbit(const config::Options& options) {
  const auto links = std::max<size_t>(config::Interfaces(options).size(), 1);
  const uint64_t sum = static_cast<uint64_t>(options.link_mbit) * links;
  return static_cast<uint32_t>(std::min<uint64_t>(sum, UINT32_MAX));
}

std::function<void(uint32_t thread)> BinderOf(const NetworkPlan& plan) {
  std::vector<topology::Cores> cores;
  for (const NetworkLink& link : plan.links) cores.push_back(link.cores);
  const bool any = std::ranges::any_of(cores, [](const auto& one) { return !one.empty(); });
  if (!any) return nullptr;
  return [cores = std::move(cores)](uint32_t thread) {
    topology::RunOn(cores[thread % cores.size()]);
  };
}

}  // namespace byteps::session
