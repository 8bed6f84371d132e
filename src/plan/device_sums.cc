#include "src/plan/device_sums.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

namespace byteps::plan {
namespace {

// A way that needs at most this much of the network's own time counts as bound by the network.
constexpr double kNearBound = 1.05;
// Reads and writes of host memory for each byte of a tensor: so many for each contribution that
// comes from a group, and so many for the sum, its way out and its way back.
constexpr double kMemoryOfGroup = 3;
constexpr double kMemoryOfSum = 7;
constexpr double kMemoryOfSumAlone = 1;

// Rates in place of unknown ones, where a user wants groups whatever the rates are.
constexpr double kSupposedLink = 12e9;
constexpr double kSupposedMemory = 100e9;

constexpr const char* kNoRoot = "BYTEPS_REDUCE_ROOTS names no rank of a group";

using Groups = std::vector<DeviceGroup>;

uint32_t CountOf(const DeviceMachine& machine) {
  return static_cast<uint32_t>(machine.ranks.size());
}

Groups AloneEach(const DeviceMachine& machine) {
  Groups groups;
  for (uint32_t rank = 0; rank < CountOf(machine); ++rank) groups.push_back({{rank}, {1.0}});
  return groups;
}

// Puts `size` ranks, one after the other, behind one link each. The new link is as slow as the
// slowest of those that were there, and has the network cards of those that begin with it.
DeviceMachine WithSwitchesOf(uint32_t size, DeviceMachine machine) {
  std::vector<HostLink> links;
  std::vector<bool> placed(machine.links.size(), false);
  for (uint32_t rank = 0; rank < CountOf(machine); ++rank) {
    const uint32_t old = machine.ranks[rank].link;
    if (rank % size == 0) links.push_back({machine.links[old].bytes_s, 0});
    links.back().bytes_s = std::min(links.back().bytes_s, machine.links[old].bytes_s);
    if (!placed[old]) links.back().network_share += machine.links[old].network_share;
    placed[old] = true;
    machine.ranks[rank].link = rank / size;
  }
  machine.links = std::move(links);
  return machine;
}

bool MayBeHome(uint32_t rank, const std::vector<uint32_t>& roots) {
  return roots.empty() || std::ranges::find(roots, rank) != roots.end();
}

// Gives each of the group's homes as much. Returns false if it has none.
bool DealEvenly(const std::vector<uint32_t>& roots, DeviceGroup& group) {
  const auto homes =
      std::ranges::count_if(group.ranks, [&](uint32_t rank) { return MayBeHome(rank, roots); });
  if (homes == 0) return false;
  for (uint32_t rank : group.ranks) {
    group.weights.push_back(MayBeHome(rank, roots) ? 1.0 / static_cast<double>(homes) : 0.0);
  }
  return true;
}

// Gives each home an equal part of what its link shall carry. Returns false if there is none.
bool DealByLinks(const DeviceMachine& machine, const std::vector<uint32_t>& roots,
                 DeviceGroup& group) {
  std::vector<uint32_t> homes(machine.links.size(), 0);
  for (uint32_t rank : group.ranks) {
    if (MayBeHome(rank, roots)) ++homes[machine.ranks[rank].link];
  }
  std::vector<HostLink> used;
  for (size_t i = 0; i < homes.size(); ++i) {
    if (homes[i] > 0) used.push_back(machine.links[i]);
  }
  if (used.empty()) return false;
  const std::vector<double> dealt = DealAmongLinks(used);
  std::vector<double> share(machine.links.size(), 0);
  for (size_t i = 0, next = 0; i < homes.size(); ++i) {
    if (homes[i] > 0) share[i] = dealt[next++] / homes[i];
  }
  for (uint32_t rank : group.ranks) {
    const bool home = MayBeHome(rank, roots);
    group.weights.push_back(home ? share[machine.ranks[rank].link] : 0.0);
  }
  return true;
}

bool SeeEachOther(const DeviceMachine& machine, uint32_t one, uint32_t other, PeerAccess over) {
  if (over == PeerAccess::kPci && machine.ranks[one].link != machine.ranks[other].link) {
    return false;
  }
  const auto reaches = [over](PeerAccess there) {
    return there == over || (over == PeerAccess::kPci && there == PeerAccess::kNvlink);
  };
  return reaches(machine.PeersOf(one, other)) && reaches(machine.PeersOf(other, one));
}

// Cuts the ranks into runs of GPUs that all reach each other. Returns nothing unless the runs have
// equally many, more than one.
std::optional<Groups> IslandsOver(const DeviceMachine& machine, PeerAccess over) {
  Groups islands;
  for (uint32_t rank = 0; rank < CountOf(machine); ++rank) {
    const bool joins = !islands.empty() && std::ranges::all_of(islands.back().ranks, [&](auto one) {
      return SeeEachOther(machine, one, rank, over);
    });
    if (!joins) islands.push_back({{}, {}, over});
    islands.back().ranks.push_back(rank);
  }
  const size_t size = islands.front().ranks.size();
  const bool equal =
      std::ranges::all_of(islands, [&](const auto& one) { return one.ranks.size() == size; });
  if (!equal || size < 2) return std::nullopt;
  return islands;
}

// Returns why the GPUs cannot be told apart, or have links of which too little is known.
std::string WhyUnknown(const DeviceMachine& machine) {
  std::vector<std::string> devices;
  for (const DeviceRank& rank : machine.ranks) {
    if (rank.is_part) return "ranks have parts of a GPU (MIG), which do not reach each other";
    if (rank.device.empty()) return "it is unknown which GPU a rank has";
    devices.push_back(rank.device);
    if (machine.links[rank.link].bytes_s <= 0 || rank.peer_bytes_s <= 0) {
      return "the rate of a GPU's link to the CPU is unknown";
    }
  }
  std::ranges::sort(devices);
  if (std::ranges::adjacent_find(devices) != devices.end()) return "ranks share a GPU";
  if (machine.memory_bytes_s <= 0) return "the rate of the host's memory is unknown";
  return machine.why_no_nccl;
}

// Returns why there are no groups, of a machine of which enough is known.
std::string WhyNoGroups(const DeviceMachine& machine) {
  const auto any = [&](PeerAccess what) {
    for (uint32_t one = 0; one < CountOf(machine); ++one) {
      for (uint32_t other = 0; other < CountOf(machine); ++other) {
        const bool shares = machine.ranks[one].link == machine.ranks[other].link;
        if (one != other && shares && machine.PeersOf(one, other) == what) return true;
      }
    }
    return false;
  };
  if (any(PeerAccess::kUnknown)) return "it is unknown whether the GPUs reach each other";
  if (any(PeerAccess::kNone)) return "GPUs behind one link to the CPU may not reach each other";
  return "the GPUs that reach each other are no equally large groups of neighbouring ranks";
}

struct Chosen {
  DeviceWay way = DeviceWay::kWindow;
  Groups groups;
  std::string why_none;  // there are no groups
};

// Returns one group of all GPUs, if all of them reach each other by NVLink.
std::optional<Chosen> OneGroup(const DeviceMachine& machine, const std::vector<uint32_t>& roots) {
  std::optional<Groups> groups = IslandsOver(machine, PeerAccess::kNvlink);
  if (!groups.has_value() || groups->size() != 1) return std::nullopt;
  if (machine.has_servers && !DealByLinks(machine, roots, groups->front())) {
    return Chosen{DeviceWay::kWindow, {}, kNoRoot};
  }
  return Chosen{DeviceWay::kNvlink, std::move(*groups), ""};
}

// Returns the faster of the islands over NVLink and those behind one link.
Chosen ChooseIslands(const DeviceMachine& machine, const std::vector<uint32_t>& roots) {
  Chosen best{DeviceWay::kWindow, {}, WhyNoGroups(machine)};
  double best_seconds = 0;
  for (const PeerAccess over : {PeerAccess::kNvlink, PeerAccess::kPci}) {
    std::optional<Groups> groups = IslandsOver(machine, over);
    if (!groups.has_value()) continue;
    const bool at_once = !machine.has_servers && groups->size() == 1;
    const bool dealt = at_once || std::ranges::all_of(*groups, [&](DeviceGroup& group) {
                         return DealEvenly(roots, group);
                       });
    if (!dealt) {
      if (best.groups.empty()) best.why_none = kNoRoot;
      continue;
    }
    const double seconds = LoadsOf(machine, *groups).seconds;
    if (!best.groups.empty() && seconds >= best_seconds) continue;
    best = {DeviceWay::kIslands, std::move(*groups), ""};
    best_seconds = seconds;
  }
  return best;
}

// Notes that something needs this time, and whether it is the slowest so far.
void Take(double seconds, DeviceBound what, DeviceLoads& loads) {
  if (seconds <= loads.seconds) return;
  loads.seconds = seconds;
  loads.bound = what;
}

DeviceSums Window(std::string reason, const DeviceMachine& machine) {
  DeviceSums sums;
  sums.reason = std::move(reason);
  sums.groups = AloneEach(machine);
  sums.loads = sums.window = LoadsOf(machine, sums.groups);
  return sums;
}

// Takes the rates that are unknown for equal. Returns whether there was one.
bool SupposeRates(DeviceMachine& machine) {
  bool supposed = false;
  const auto suppose = [&supposed](double rate, double& of) {
    if (of > 0) return;
    of = rate;
    supposed = true;
  };
  for (HostLink& link : machine.links) suppose(kSupposedLink, link.bytes_s);
  for (DeviceRank& rank : machine.ranks) suppose(kSupposedLink, rank.peer_bytes_s);
  suppose(kSupposedMemory, machine.memory_bytes_s);
  return supposed;
}

DeviceSums PlanFor(DeviceMachine machine, const DeviceSumsWishes& wishes) {
  const bool is_asked = wishes.way == DeviceSumsWish::kNccl;
  const bool supposed = is_asked && SupposeRates(machine);
  DeviceSums window = Window("", machine);
  const auto because = [&window](std::string reason) {
    window.reason = std::move(reason);
    return window;
  };
  if (CountOf(machine) == 1 || !machine.is_one_member) {
    window.way = DeviceWay::kCopies;
    return because(CountOf(machine) == 1 ? "this is the only rank of the machine"
                                         : "each rank is a member of the job by itself");
  }
  if (wishes.way == DeviceSumsWish::kWindow) return because("as BYTEPS_DEVICE_SUMS says");
  if (std::string unknown = WhyUnknown(machine); !unknown.empty()) return because(unknown);
  if (machine.has_servers && !is_asked) {
    if (machine.network_bytes_s <= 0) {
      return because("the rate of the network is unknown (BYTEPS_LINK_MBIT)");
    }
    if (window.window.of_network <= kNearBound) {
      return because("the network is the bound");
    }
  }
  std::optional<Chosen> one = OneGroup(machine, wishes.roots);
  Chosen chosen = one.has_value() ? std::move(*one) : ChooseIslands(machine, wishes.roots);
  if (chosen.groups.empty()) return because(chosen.why_none);
  DeviceSums sums;
  sums.way = chosen.way;
  sums.groups = std::move(chosen.groups);
  sums.loads = LoadsOf(machine, sums.groups);
  sums.window = window.window;
  if (!is_asked && sums.loads.seconds >= sums.window.seconds) {
    return because("groups of GPUs would not be faster");
  }
  sums.reason = machine.has_servers ? "copies, not the network, are the bound" : "it is faster";
  if (is_asked) sums.reason = "as BYTEPS_DEVICE_SUMS says";
  if (supposed) sums.reason += "; rates of links are unknown, and count as equal";
  return sums;
}

std::string Rounded(double number) {
  const auto hundredths = static_cast<int64_t>(std::llround(number * 100));
  const std::string rest = std::to_string(hundredths % 100);
  return std::to_string(hundredths / 100) + "." + (rest.size() == 1 ? "0" : "") + rest;
}

// Says what a way takes.
std::string LoadText(const DeviceLoads& loads) {
  const double busiest = loads.links.empty() ? 0 : std::ranges::max(loads.links);
  std::string text = Rounded(busiest) + " bytes each way over the busiest link to the CPU, " +
                     Rounded(loads.memory) + " of the host's memory";
  if (loads.of_network > 0) text += ", " + Rounded(loads.of_network) + " times the network's time";
  return text;
}

}  // namespace

DeviceLoads LoadsOf(const DeviceMachine& machine, std::span<const DeviceGroup> groups) {
  DeviceLoads loads;
  const double contributors = machine.is_one_member ? 1 : static_cast<double>(groups.size());
  const double to_host = static_cast<double>(
      std::ranges::count_if(groups, [](const DeviceGroup& one) { return !one.weights.empty(); }));
  loads.network = machine.has_servers ? contributors : 0;
  for (const HostLink& link : machine.links) {
    loads.links.push_back(loads.network * link.network_share);
  }
  loads.devices.resize(machine.ranks.size(), 0);
  if (machine.network_bytes_s > 0) {
    Take(loads.network / machine.network_bytes_s, DeviceBound::kNetwork, loads);
  }
  for (const DeviceGroup& group : groups) {
    const bool at_once = group.weights.empty();
    if (at_once && group.over != PeerAccess::kPci) {
      loads.bound = DeviceBound::kNvlink;
      continue;
    }
    // A ring carries a piece past every GPU but one, to its home and back. Without homes each GPU
    // has an equal share of the way, and no copy to the host.
    const double least =
        at_once ? 2.0 / static_cast<double>(group.ranks.size()) : std::ranges::min(group.weights);
    const double passing = group.over == PeerAccess::kPci ? 2 - least : 0;
    for (size_t i = 0; i < group.ranks.size(); ++i) {
      const DeviceRank& rank = machine.ranks[group.ranks[i]];
      const double copied = at_once ? 0 : group.weights[i];
      loads.links[rank.link] += copied;
      loads.devices[group.ranks[i]] = std::max(passing, copied);
      if (passing > 0) Take(passing / rank.peer_bytes_s, DeviceBound::kPeers, loads);
    }
  }
  for (size_t i = 0; i < machine.links.size(); ++i) {
    if (machine.links[i].bytes_s <= 0) continue;
    Take(loads.links[i] / machine.links[i].bytes_s, DeviceBound::kHostLink, loads);
  }
  const double of_sum = machine.has_servers ? kMemoryOfSum * contributors : kMemoryOfSumAlone;
  loads.memory = to_host == 0 ? 0 : kMemoryOfGroup * to_host + of_sum;
  if (machine.memory_bytes_s > 0) {
    Take(loads.memory / machine.memory_bytes_s, DeviceBound::kMemory, loads);
  }
  if (loads.network > 0) loads.of_network = loads.seconds * machine.network_bytes_s / loads.network;
  return loads;
}

// A link gets something as long as its own load is below the level that all others reach.
std::vector<double> DealAmongLinks(std::span<const HostLink> links) {
  std::vector<size_t> order(links.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t i) { return links[i].network_share / links[i].bytes_s; });
  double shares = 1, rates = 0, level = 0;
  for (size_t i : order) {
    if (rates > 0 && links[i].network_share / links[i].bytes_s >= level) break;
    shares += links[i].network_share;
    rates += links[i].bytes_s;
    level = shares / rates;
  }
  std::vector<double> dealt;
  for (const HostLink& link : links) {
    dealt.push_back(std::max(0.0, level * link.bytes_s - link.network_share));
  }
  return dealt;
}

std::vector<PieceRun> DealPieces(uint32_t pieces, std::span<const double> weights) {
  const double whole = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<PieceRun> runs;
  double sum = 0;
  uint32_t first = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    const bool is_last = i + 1 == weights.size();
    const auto share = static_cast<uint32_t>(std::llround(sum / whole * pieces));
    const uint32_t end = is_last ? pieces : std::min(std::max(share, first), pieces);
    runs.push_back({first, end - first});
    first = end;
  }
  return runs;
}

DeviceSums PlanDeviceSums(const DeviceMachine& machine, const DeviceSumsWishes& wishes) {
  if (wishes.switch_size == 0) return PlanFor(machine, wishes);
  return PlanFor(WithSwitchesOf(wishes.switch_size, machine), wishes);
}

std::string DescribeDeviceSums(const DeviceSums& sums) {
  const std::string forecast = ". Forecast for each byte of a tensor, not measured: ";
  const std::string window = "the ranks of a machine sum in the window";
  std::string groups;
  switch (sums.way) {
    case DeviceWay::kCopies:
      return "each rank copies for itself: " + sums.reason + forecast + LoadText(sums.loads);
    case DeviceWay::kWindow: return window + ": " + sums.reason + forecast + LoadText(sums.loads);
    case DeviceWay::kIslands: groups = "NCCL in groups of GPUs"; break;
    case DeviceWay::kNvlink: groups = "NCCL over NVLink among all GPUs"; break;
  }
  return "sums go through " + groups + " (" + sums.reason + ")" + forecast + LoadText(sums.loads) +
         "; in the window " + LoadText(sums.window);
}

}  // namespace byteps::plan
