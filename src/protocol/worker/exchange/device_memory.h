// The device whose memory an operation uses. The protocol only hands this on, to the stages that
// copy (runtime/worker/device_paths.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/wire/accounts.h"

namespace byteps::device {
class DeviceLines;
}

namespace byteps::protocol {

struct DeviceMemory {
  device::DeviceLines* lines = nullptr;  // outlive the lanes
  uint64_t owner = 0;                    // of all copies of the operation
};

// Says what the devices of a rank keep its user waiting for. For people.
struct DeviceWaits {
  // The names of operations that the user has begun, and whose input is not in the host's memory
  // yet. They are no operations of the front yet.
  std::vector<std::string> late_inputs;
  std::vector<wire::SlowCopy> copies;  // at most kCopiesInAccountMax
  friend bool operator==(const DeviceWaits&, const DeviceWaits&) = default;
};

}  // namespace byteps::protocol
