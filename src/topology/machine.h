// What this machine is made of: its cores, its NUMA nodes, and what its network devices are. Read
// from the files in which the kernel tells it (docs/decisions/0033-lanes-and-links.md says why not
// from a library). Where the kernel tells nothing, as in many containers, the answer is "unknown",
// never an error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace byteps::topology {

// Numbers of cores as the kernel counts them, in order.
using Cores = std::vector<uint32_t>;

// "0-3,8,10-11"; what cannot be read, and numbers from 65536 on, are left out.
Cores ParseCores(std::string_view text);
std::string FormatCores(const Cores& cores);

struct NumaNode {
  uint32_t number = 0;
  Cores cores;
};

// A value: what is asked is read from the files each time.
class Machine {
 public:
  // `root`: the folder in which sys/ lies, for tests; "/" is this machine.
  explicit Machine(std::string root = "/") : root_(std::move(root)) {}

  // The nodes that have cores, by number; empty if the kernel does not tell.
  std::vector<NumaNode> Nodes() const;

  // In Mbit/s; 0: unknown. Of a device that is made of others (a bond, a VLAN), what these have
  // together. Other virtual devices name a rate that they do not keep: unknown.
  uint64_t LinkMbit(const std::string& interface) const;

  // The cores of the NUMA node at which the interface's device is; empty if that is unknown, or if
  // the machine has one node.
  Cores CoresNear(const std::string& interface) const;

  // How many cores the control group of this process may use at most, rounded up; 0: any number.
  uint32_t CoreQuota() const;

 private:
  std::string ReadLine(const std::string& path) const;
  // The devices that it is made of; itself if it is one.
  std::vector<std::string> DevicesOf(const std::string& interface, int depth) const;

  std::string root_;
};

// The cores that the calling thread may run on.
Cores AllowedCores();

// How many cores this process may use: what it may run on, and what its control group may use.
uint32_t UsableCores(const Machine& machine);

// From now on the calling thread, and threads that it starts, run on those of `cores` that they may
// run on. False, and no change, if there are none, or if the system does not allow it.
bool RunOn(const Cores& cores);

}  // namespace byteps::topology
