#include "src/session/device/device_forecast.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace byteps::session {
namespace {

// Nobody has measured the memory of this host; each NUMA node of today's hosts has about this rate.
constexpr double kMemoryOfNode = 100e9;
// The part of the rate of a GPU's own link that copies between two GPUs reach.
constexpr double kPeerShare = 0.8;

plan::PeerAccess PeerOf(device::cuda::GpuReach reach) {
  switch (reach) {
    case device::cuda::GpuReach::kUnknown: break;
    case device::cuda::GpuReach::kNot: return plan::PeerAccess::kNone;
    case device::cuda::GpuReach::kPci: return plan::PeerAccess::kPci;
    case device::cuda::GpuReach::kNvlink: return plan::PeerAccess::kNvlink;
  }
  return plan::PeerAccess::kUnknown;
}

// Returns the number of the link; adds the link if it is new.
uint32_t LinkFor(const topology::PciPlace& place, std::vector<std::string>& names,
                 plan::DeviceMachine& machine) {
  const auto found = std::ranges::find(names, place.host_link);
  const auto number = static_cast<uint32_t>(found - names.begin());
  if (found == names.end()) {
    names.push_back(place.host_link);
    machine.links.push_back({static_cast<double>(place.host_link_bytes_s), 0});
  }
  // At one bridge of a virtual machine each device has a rate of its own.
  plan::HostLink& link = machine.links[number];
  link.bytes_s = std::min(link.bytes_s, static_cast<double>(place.host_link_bytes_s));
  return number;
}

// Adds what each network card takes of the link to the CPU that it shares with GPUs.
void AddCards(const topology::Machine& host, std::span<const NetworkCard> cards,
              const std::vector<std::string>& names, plan::DeviceMachine& machine) {
  std::vector<topology::PciPlace> places;
  for (const NetworkCard& card : cards) {
    std::ranges::move(host.PlacesOf(card.interface), std::back_inserter(places));
    machine.network_bytes_s += static_cast<double>(card.mbit) * 1e6 / 8;
  }
  for (const topology::PciPlace& place : places) {
    const auto found = std::ranges::find(names, place.host_link);
    if (found == names.end()) continue;
    machine.links[static_cast<size_t>(found - names.begin())].network_share +=
        1.0 / static_cast<double>(places.size());
  }
}

}  // namespace

plan::DeviceMachine DeviceMachineOf(const config::Options& options, const topology::Machine& host,
                                    std::span<const NetworkCard> cards,
                                    const device::cuda::MachineGpus& gpus) {
  std::vector<std::string> uuids;
  for (size_t rank = 0; rank < static_cast<size_t>(options.local_size); ++rank) {
    uuids.push_back(gpus.gpus[rank % gpus.gpus.size()].uuid);
  }
  return DeviceMachineOf(options, host, cards, gpus, uuids);
}

plan::DeviceMachine DeviceMachineOf(const config::Options& options, const topology::Machine& host,
                                    std::span<const NetworkCard> cards,
                                    const device::cuda::MachineGpus& gpus,
                                    std::span<const std::string> uuids) {
  plan::DeviceMachine machine;
  machine.has_servers = config::IsDistributed(options);
  machine.is_one_member = config::IsOneOfMachine(options) || config::SumsLocally(options);
  const auto nodes = std::max<size_t>(host.Nodes().size(), 1);
  machine.memory_bytes_s = kMemoryOfNode * static_cast<double>(nodes);
  std::vector<std::string> names;
  const size_t count = gpus.gpus.size();
  std::vector<size_t> numbers;  // by rank; `count`: NVML does not show the GPU
  for (const std::string& uuid : uuids) {
    const auto found = std::ranges::find(gpus.gpus, uuid, &device::cuda::MachineGpu::uuid);
    numbers.push_back(static_cast<size_t>(found - gpus.gpus.begin()));
  }
  const device::cuda::MachineGpu unknown;
  for (const size_t number : numbers) {
    const device::cuda::MachineGpu& gpu = number < count ? gpus.gpus[number] : unknown;
    // A GPU that the kernel does not show counts as one with a link of its own, of unknown rate.
    const topology::PciPlace place =
        host.PlaceOf(gpu.address).value_or(topology::PciPlace{.host_link = gpu.uuid});
    machine.ranks.push_back({gpu.uuid, gpu.has_parts, LinkFor(place, names, machine),
                             kPeerShare * static_cast<double>(place.own_bytes_s)});
  }
  for (const size_t one : numbers) {
    for (const size_t other : numbers) {
      const bool are_known = one < count && other < count;
      machine.peers.push_back(are_known ? PeerOf(gpus.reach[one * count + other])
                                        : plan::PeerAccess::kUnknown);
    }
  }
  AddCards(host, cards, names, machine);
  return machine;
}

plan::DeviceSums ForeseeDeviceSums(const config::Options& options,
                                   const plan::DeviceMachine& machine) {
  plan::DeviceSumsWishes wishes;
  if (options.device_sums == "window") wishes.way = plan::DeviceSumsWish::kWindow;
  if (options.device_sums == "nccl") wishes.way = plan::DeviceSumsWish::kNccl;
  wishes.switch_size = static_cast<uint32_t>(options.pcie_switch_size);
  wishes.roots = config::ReduceRoots(options);
  return plan::PlanDeviceSums(machine, wishes);
}

}  // namespace byteps::session
