// Reads from the kernel's files where a device is on the PCI bus: which link to the CPU it shares
// with other devices, and how fast its links are (docs/decisions/0062-way-of-device-sums.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace byteps::topology {

struct PciPlace {
  // Names the link to the CPU. Devices with the same name share it: those below one root port, or,
  // where a virtual machine shows no root port, those at one bridge.
  std::string host_link;
  // The rates in each direction that copies reach, of this link and of the device's own; 0:
  // unknown.
  uint64_t host_link_bytes_s = 0;
  uint64_t own_bytes_s = 0;
  int numa_node = -1;  // -1: unknown

  friend bool operator==(const PciPlace&, const PciPlace&) = default;
};

// Returns the place of the device whose folder of the kernel this is; nothing if it is no device of
// the bus. `device` may be a link.
std::optional<PciPlace> ReadPciPlace(const std::filesystem::path& device);

// Returns the kernel's form of an address: "0000:3b:00.0" for "00000000:3B:00.0".
std::string KernelPciAddress(std::string_view address);

}  // namespace byteps::topology
