// Machines with GPUs, as tests of device_sums.h and of what is made from it know them. The rates
// are those of the table in docs/gpu.md.
#pragma once

#include <cstdint>
#include <string>

#include "src/plan/device_sums.h"

namespace byteps::plan {

constexpr double kGigabyte = 1e9;
constexpr double kGen3 = 12 * kGigabyte;
constexpr double kGen4 = 25 * kGigabyte;
constexpr double kGen5 = 50 * kGigabyte;
constexpr double kTwoNodes = 200 * kGigabyte;  // of host memory
// The seeds and the paper say rates of networks in bits.
constexpr double kGigabit = kGigabyte / 8;

// Has `gpus` GPUs behind `links` links, as many behind each. A network card is behind the first.
// GPUs behind one link reach each other.
inline DeviceMachine MachineOf(uint32_t gpus, uint32_t links, double link_bytes_s,
                               double network_gbit) {
  DeviceMachine machine;
  machine.memory_bytes_s = kTwoNodes;
  machine.network_bytes_s = network_gbit * kGigabit;
  for (uint32_t i = 0; i < links; ++i) machine.links.push_back({link_bytes_s, i == 0 ? 1.0 : 0.0});
  for (uint32_t rank = 0; rank < gpus; ++rank) {
    machine.ranks.push_back(
        {"gpu " + std::to_string(rank), false, rank * links / gpus, link_bytes_s / 1.25});
  }
  for (uint32_t one = 0; one < gpus; ++one) {
    for (uint32_t other = 0; other < gpus; ++other) {
      const bool same = machine.ranks[one].link == machine.ranks[other].link;
      machine.peers.push_back(same ? PeerAccess::kPci : PeerAccess::kNone);
    }
  }
  return machine;
}

inline void ConnectAll(PeerAccess how, DeviceMachine& machine) {
  for (PeerAccess& one : machine.peers) one = how;
}

// Four GPUs that have a root port each; the card has another one.
inline DeviceMachine RootPorts(double network_gbit) {
  DeviceMachine machine = MachineOf(4, 4, kGen4, network_gbit);
  machine.links[0].network_share = 0;
  return machine;
}

inline DeviceMachine FourSwitches(double network_gbit) {
  DeviceMachine machine = MachineOf(8, 4, kGen3, network_gbit);
  for (DeviceRank& rank : machine.ranks) rank.peer_bytes_s = 10 * kGigabyte;
  return machine;
}

inline DeviceMachine TwoSwitches(double network_gbit) {
  return MachineOf(8, 2, kGen4, network_gbit);
}

// Eight V100: a mesh of NVLink, four switches.
inline DeviceMachine V100Mesh(double network_gbit) {
  DeviceMachine machine = FourSwitches(network_gbit);
  ConnectAll(PeerAccess::kNvlink, machine);
  return machine;
}

// Eight H100, each with a switch and a network card of its own.
inline DeviceMachine EightCards(double network_gbit) {
  DeviceMachine machine = MachineOf(8, 8, kGen5, network_gbit);
  for (HostLink& link : machine.links) link.network_share = 1.0 / 8;
  ConnectAll(PeerAccess::kNvlink, machine);
  return machine;
}

// A virtual machine that shows its four GPUs and its card at one bridge.
inline DeviceMachine FlattenedVm(double network_gbit) {
  return MachineOf(4, 1, kGen4, network_gbit);
}

}  // namespace byteps::plan
