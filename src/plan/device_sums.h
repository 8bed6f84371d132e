// Decides how the ranks of a machine, each with a GPU, would sum: which of their GPUs sum among
// themselves before anything goes to the host, and which rank, a *home*, carries which pieces. The
// rule (docs/decisions/0062-way-of-device-sums.md):
//
//   * The window reaches the network's bound on most machines, keeps the bits of a sum, and needs
//     nothing but copies. So groups of GPUs are for machines where copies would be the bound.
//   * If every GPU reaches every other one by NVLink, all of them are one group. Its homes are
//     dealt so that the busiest link to the CPU carries the least.
//   * Else islands are groups: GPUs behind one link to the CPU that reach each other, or that reach
//     each other by NVLink. Islands have equally many GPUs, of ranks that follow one another.
//   * Without servers a group of all ranks has no homes: each GPU gets the whole sum.
//   * Whatever is not known counts against groups.
//
// A carrier makes the plan before the first round in the memory of GPUs; people get it as a
// forecast. All times are forecasts from rates, and none was measured. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace byteps::plan {

// Says how a GPU reaches the memory of another one.
enum class PeerAccess : uint8_t { kUnknown, kNone, kPci, kNvlink };

// A link between the CPU and GPUs: that of a PCI switch, or of a GPU that has a root port alone.
struct HostLink {
  double bytes_s = 0;        // in each direction; 0: unknown
  double network_share = 0;  // of the network's bytes, which pass this link: 1 if the card is here
};

// A rank of the machine, and its GPU.
struct DeviceRank {
  std::string device;       // tells GPUs apart; empty: unknown
  bool is_part = false;     // the device is a part of a GPU (MIG)
  uint32_t link = 0;        // in DeviceMachine::links
  double peer_bytes_s = 0;  // of copies between GPUs behind one link
};

struct DeviceMachine {
  std::vector<DeviceRank> ranks;  // by local rank
  std::vector<HostLink> links;
  std::vector<PeerAccess> peers;  // of rank i to rank k at i * ranks + k
  double memory_bytes_s = 0;      // of the host
  double network_bytes_s = 0;     // of the machine, in each direction; 0: unknown
  bool has_servers = true;
  bool is_one_member = true;  // false: each rank is a member of the job by itself
  std::string why_no_nccl;    // empty: all ranks have one version of NCCL, and it suffices

  PeerAccess PeersOf(uint32_t from, uint32_t to) const { return peers[from * ranks.size() + to]; }
};

enum class DeviceSumsWish : uint8_t { kAuto, kWindow, kNccl };

// Holds what the user has set in place of what the machine says.
struct DeviceSumsWishes {
  DeviceSumsWish way = DeviceSumsWish::kAuto;
  uint32_t switch_size = 0;     // so many ranks, one after the other, share a link; 0: as found
  std::vector<uint32_t> roots;  // the only ranks that may be homes; empty: all
};

// Ranks whose GPUs sum among themselves. A rank alone brings its GPU's bytes into the window.
struct DeviceGroup {
  std::vector<uint32_t> ranks;
  // The share of pieces of which each rank is the home; the sum is 1. Empty: no piece goes
  // to the host, and each GPU gets the whole sum.
  std::vector<double> weights;
  PeerAccess over = PeerAccess::kNone;  // what the group's own bytes go over
};

// Names what is slowest. Nobody has a forecast of NVLink, which is faster than all others.
enum class DeviceBound : uint8_t { kNetwork, kHostLink, kPeers, kMemory, kNvlink };

// Counts what a way takes for each byte of a tensor.
struct DeviceLoads {
  std::vector<double> links;    // bytes over each link to the CPU, in each direction
  std::vector<double> devices;  // bytes over each rank's own link, in each direction
  double memory = 0;            // bytes of the host's memory, read and written
  double network = 0;           // bytes over the network, in each direction
  double seconds = 0;           // of the slowest of them
  double of_network = 0;        // the same in times of the network's own; 0: unknown, or no network
  DeviceBound bound = DeviceBound::kNetwork;
};

enum class DeviceWay : uint8_t {
  kCopies,   // each rank copies for itself, without a window
  kWindow,   // all GPUs' bytes meet in the host's memory
  kIslands,  // NCCL sums in each group, and the host sums the groups
  kNvlink,   // NCCL sums all of them
};

struct DeviceSums {
  DeviceWay way = DeviceWay::kWindow;
  std::string reason;               // half a sentence
  std::vector<DeviceGroup> groups;  // each rank is in one of them
  DeviceLoads loads;
  DeviceLoads window;  // what the window would take
};

// REQUIRES: there is a rank; every rank's link is one of the links; `peers` has an entry for each
// pair of ranks.
DeviceSums PlanDeviceSums(const DeviceMachine& machine, const DeviceSumsWishes& wishes);

// Returns what the groups take. Every rank of the machine is in one of them.
DeviceLoads LoadsOf(const DeviceMachine& machine, std::span<const DeviceGroup> groups);

// Deals one part among the links so that the busiest carries the least, beside its share of the
// network. Returns the share of each; the sum is 1. REQUIRES: every rate is known.
std::vector<double> DealAmongLinks(std::span<const HostLink> links);

// A run of pieces, one after the other.
struct PieceRun {
  uint32_t first = 0;
  uint32_t count = 0;
  friend bool operator==(const PieceRun&, const PieceRun&) = default;
};

// Deals `pieces` pieces to homes: a run for each, in order, by weight, and less than a piece from
// it. A home without weight gets none.
std::vector<PieceRun> DealPieces(uint32_t pieces, std::span<const double> weights);

// Returns a text for people: the way that the job takes, the reason, and the forecast.
std::string DescribeDeviceSums(const DeviceSums& sums);

}  // namespace byteps::plan
