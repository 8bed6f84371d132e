// Mover: copies between the blocks of a window and memory of a device that processors cannot touch.
// BlockWork copies the host's memory itself.
//
// On the thread of the window. Nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "src/base/status.h"
#include "src/protocol/worker/exchange/device_memory.h"

namespace byteps::machine {

class Mover {
 public:
  enum class Way : uint8_t { kDown, kUp };  // from the device, to the device
  struct Copy {
    Way way = Way::kDown;
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    size_t bytes = 0;
  };

  virtual ~Mover() = default;
  // Begins a copy. Its end is an event of this rank. REQUIRES: no copy of this rank in this block
  // is under way; nobody else uses the part of the block until the copy has ended.
  virtual void Begin(uint32_t block, const protocol::DeviceMemory& device, const Copy& copy) = 0;
  // Returns how the last copy in this block has ended; no value: it is under way.
  virtual std::optional<Status> EndOf(uint32_t block) = 0;
  // Takes back the copy in this block, if it has not begun: then it has ended in an error. Nobody
  // waits for one that has begun. REQUIRES: there was a copy in this block.
  virtual void CallOff(uint32_t block) = 0;
};

}  // namespace byteps::machine
