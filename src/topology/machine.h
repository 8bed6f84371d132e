// Describes this machine: its cores, its NUMA nodes, its network devices, and where devices are on
// the PCI bus. The answers come from files of the kernel (docs/decisions/0033-lanes-and-links.md
// says why not from a library). If the kernel tells nothing, as in many containers, the answer is
// "unknown", never an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/topology/pci.h"

namespace byteps::topology {

// The kernel's numbers of cores, in order.
using Cores = std::vector<uint32_t>;

// Read and write "0-3,8,10-11". ParseCores leaves out parts that it cannot read, and numbers from
// 65536 on.
Cores ParseCores(std::string_view text);
std::string FormatCores(const Cores& cores);

struct NumaNode {
  uint32_t number = 0;
  Cores cores;
};

// A value. Each question reads the files again.
class Machine {
 public:
  // `root`: the folder in which sys/ lies, for tests; "/" is this machine.
  explicit Machine(std::string root = "/") : root_(std::move(root)) {}

  // Returns the nodes that have cores, by number; empty if the kernel does not tell.
  std::vector<NumaNode> Nodes() const;

  // Returns the speed of the interface in Mbit/s; 0: unknown. A device that is made of others (a
  // bond, a VLAN) has their speeds together. Other virtual devices name a rate that they do not
  // keep, so their speed is unknown.
  uint64_t LinkMbit(const std::string& interface) const;

  // Returns the cores of the NUMA node at which the interface's device is; empty if that node is
  // unknown, or if the machine has one node.
  Cores CoresNear(const std::string& interface) const;

  // Returns where a device is on the PCI bus, by its address ("0000:3b:00.0"); nothing if the
  // kernel does not tell.
  std::optional<PciPlace> PlaceOf(const std::string& address) const;

  // Returns the same of the devices of a network interface that are on the bus.
  std::vector<PciPlace> PlacesOf(const std::string& interface) const;

  // Returns the number of cores that the control group of this process may use at most, rounded up;
  // 0: any number.
  uint32_t CoreQuota() const;

 private:
  std::string ReadLine(const std::string& path) const;
  // Returns the devices that the interface is made of; the interface itself if it is a device.
  std::vector<std::string> DevicesOf(const std::string& interface, int depth) const;

  std::string root_;
};

// Returns the cores that the calling thread may run on.
Cores AllowedCores();

// Returns the number of cores that this process may use, limited by the cores that it may run on
// and by its control group.
uint32_t UsableCores(const Machine& machine);

// Binds the calling thread, and threads that it starts later, to the `cores` on which they may run.
// Returns false and changes nothing if there are none, or if the system does not allow it.
bool RunOn(const Cores& cores);

}  // namespace byteps::topology
