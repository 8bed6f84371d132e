#include "src/plan/placement.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "src/base/check.h"

namespace byteps::plan {
namespace {

struct Model {
  std::vector<double> links;
  uint64_t workers = 0;  // N
  double base = 0;       // load / link that no placement can avoid: max(workers_i / link_i)
};

std::vector<double> KnownLinks(std::span<const Host> hosts) {
  std::vector<uint64_t> known;
  for (const Host& host : hosts) {
    if (host.link != 0) known.push_back(host.link);
  }
  double typical = 1;
  if (!known.empty()) {
    const auto middle = known.begin() + static_cast<std::ptrdiff_t>((known.size() - 1) / 2);
    std::nth_element(known.begin(), middle, known.end());
    typical = static_cast<double>(*middle);
  }
  std::vector<double> links;
  links.reserve(hosts.size());
  for (const Host& host : hosts) {
    links.push_back(host.link == 0 ? typical : static_cast<double>(host.link));
  }
  return links;
}

Model MakeModel(std::span<const Host> hosts) {
  Model model;
  model.links = KnownLinks(hosts);
  for (size_t i = 0; i < hosts.size(); ++i) {
    model.workers += hosts[i].workers;
    model.base = std::max(model.base, hosts[i].workers / model.links[i]);
  }
  return model;
}

// Hosts whose load grows with their share: a server, and fewer than half of the workers.
std::vector<size_t> Vessels(std::span<const Host> hosts, uint64_t workers) {
  std::vector<size_t> vessels;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i].servers > 0 && 2ULL * hosts[i].workers < workers) vessels.push_back(i);
  }
  return vessels;
}

double ShareAtLevel(const Host& host, double link, uint64_t workers, double level) {
  const double room = link * level - host.workers;
  return std::max(0.0, room / static_cast<double>(workers - 2ULL * host.workers));
}

// Returns the level at which the vessels hold everything; infinite if there are none. A vessel
// starts to fill at workers_i / link_i, so the loop takes them in that order until the next one
// would stay empty.
double FillLevel(std::span<const Host> hosts, const Model& model) {
  std::vector<size_t> order = Vessels(hosts, model.workers);
  const auto start = [&](size_t i) { return hosts[i].workers / model.links[i]; };
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return start(a) != start(b) ? start(a) < start(b) : a < b; });
  double level = std::numeric_limits<double>::infinity();
  double slope = 0;   // share gained per unit of level
  double volume = 1;  // level * slope when everything is held
  for (size_t i : order) {
    if (start(i) >= level) break;
    const double width = static_cast<double>(model.workers - 2ULL * hosts[i].workers);
    slope += model.links[i] / width;
    volume += hosts[i].workers / width;
    level = volume / slope;
  }
  return level;
}

// Gives `rest` to the hosts that have a server and whose load does not grow with their share, by
// link.
void ShareRest(std::span<const Host> hosts, const Model& model, double rest,
               std::vector<double>& shares) {
  const auto takes = [&](size_t i) {
    return hosts[i].servers > 0 && 2ULL * hosts[i].workers == model.workers;
  };
  double links = 0;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (takes(i)) links += model.links[i];
  }
  if (links == 0) return;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (takes(i)) shares[i] = rest * model.links[i] / links;
  }
}

std::vector<double> OptimalShares(std::span<const Host> hosts, const Model& model) {
  std::vector<double> shares(hosts.size(), 0.0);
  bool any_half = false;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i].servers == 0) continue;
    if (2ULL * hosts[i].workers > model.workers) {
      shares[i] = 1;
      return shares;
    }
    any_half = any_half || 2ULL * hosts[i].workers == model.workers;
  }
  double level = FillLevel(hosts, model);
  if (any_half) level = std::min(level, model.base);
  double held = 0;
  for (size_t i : Vessels(hosts, model.workers)) {
    shares[i] = ShareAtLevel(hosts[i], model.links[i], model.workers, level);
    held += shares[i];
  }
  if (any_half && held < 1) {
    ShareRest(hosts, model, 1 - held, shares);
  } else {
    for (double& share : shares) share /= held;  // rounding only: held is 1 but for last bits
  }
  return shares;
}

std::vector<uint32_t> ServerWeights(std::span<const Host> hosts,
                                    const std::vector<double>& shares) {
  std::vector<uint32_t> weights(hosts.size(), 0);
  size_t largest = 0;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i].servers == 0) continue;
    weights[i] = static_cast<uint32_t>(shares[i] * kWeightParts / hosts[i].servers + 0.5);
    if (shares[i] > shares[largest]) largest = i;
  }
  weights[largest] = std::max(weights[largest], 1U);
  return weights;
}

double Load(const Host& host, const Model& model, double share) {
  const double own = host.workers;
  const double others = static_cast<double>(model.workers - host.workers);
  return own * (1 - share) + others * share;
}

double TimeOfShares(std::span<const Host> hosts, const Model& model,
                    std::span<const double> shares) {
  double time = 0;
  for (size_t i = 0; i < hosts.size(); ++i) {
    time = std::max(time, Load(hosts[i], model, shares[i]) / model.links[i]);
  }
  return time;
}

}  // namespace

Result<Shares> ComputeShares(std::span<const Host> hosts) {
  const bool any_server =
      std::any_of(hosts.begin(), hosts.end(), [](const Host& host) { return host.servers > 0; });
  if (!any_server) {
    return Status(StatusCode::kInvalidArgument,
                  "no host runs a server, so no piece has a place; start at least one server");
  }
  return SharesOf(hosts, OptimalShares(hosts, MakeModel(hosts)));
}

Shares SharesOf(std::span<const Host> hosts, std::vector<double> host_share) {
  BYTEPS_CHECK(host_share.size() == hosts.size());
  Shares result;
  result.host_share = std::move(host_share);
  result.server_weight = ServerWeights(hosts, result.host_share);
  result.time_per_byte = TimePerByte(hosts, result.host_share);
  return result;
}

double TimePerByte(std::span<const Host> hosts, std::span<const double> host_share) {
  BYTEPS_CHECK(host_share.size() == hosts.size());
  return TimeOfShares(hosts, MakeModel(hosts), host_share);
}

double LoadPerByte(std::span<const Host> hosts, std::span<const double> host_share) {
  BYTEPS_CHECK(host_share.size() == hosts.size());
  const Model model = MakeModel(hosts);
  double load = 0;
  for (size_t i = 0; i < hosts.size(); ++i) load += Load(hosts[i], model, host_share[i]);
  return load;
}

Result<std::vector<uint32_t>> ShardWeights(const Shares& shares,
                                           std::span<const ServerSite> sites) {
  std::vector<uint32_t> weights;
  uint64_t total = 0;
  for (const ServerSite& site : sites) {
    if (site.host >= shares.server_weight.size()) {
      return Status(StatusCode::kInvalidArgument, "a server names host " +
                                                      std::to_string(site.host) + " of " +
                                                      std::to_string(shares.server_weight.size()));
    }
    if (site.shards == 0) continue;
    const uint32_t weight = shares.server_weight[site.host] / site.shards;
    weights.insert(weights.end(), site.shards, weight);
    total += weight;
  }
  if (weights.empty()) {
    return Status(StatusCode::kInvalidArgument, "no server has a shard; each needs at least one");
  }
  // Rounding can make all weights zero, and the sites can differ from the counts of the hosts.
  if (total == 0) std::fill(weights.begin(), weights.end(), 1U);
  return weights;
}

}  // namespace byteps::plan
