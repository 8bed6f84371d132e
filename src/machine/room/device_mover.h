// DeviceMover: copies between the blocks of a window and devices, on the lines of each device.
//
// Copies end on threads of lines. They may end after the engine of this rank has gone, so what they
// use lives as long as the lines (DeviceLines::Keep), the memory of the window among it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/device/device_lines.h"
#include "src/local/shared_memory.h"
#include "src/local/window.h"
#include "src/machine/room/mover.h"
#include "src/runtime/worker/engine.h"

namespace byteps::machine {

class DeviceMover final : public Mover {
 public:
  // `memory`: what the window lies in.
  DeviceMover(local::Window& window, std::shared_ptr<const local::SharedMemory> memory);
  // Copies that are under way go on.
  ~DeviceMover() override;
  DeviceMover(const DeviceMover&) = delete;
  DeviceMover& operator=(const DeviceMover&) = delete;

  void Begin(uint32_t block, const protocol::DeviceMemory& device, const Copy& copy) override;
  std::optional<Status> EndOf(uint32_t block) override;
  void CallOff(uint32_t block) override;

 private:
  struct State;
  const std::shared_ptr<State> state_;       // shared with the lines
  std::vector<device::DeviceLines*> knows_;  // lines that share the state
};

// Returns the function that lets devices pin the window of a machine, so that they copy from and to
// it by themselves. `remedy`: what a user can do whose driver refuses that.
runtime::PrepareDevice PinsWindow(std::shared_ptr<const local::SharedMemory> memory,
                                  ByteSpan window, std::string remedy);

}  // namespace byteps::machine
