// One operation in a device's memory, on its way through the host's. StagedOperations owns these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "src/base/time.h"
#include "src/device/copy_line.h"
#include "src/device/device.h"
#include "src/device/pinned_memory.h"
#include "src/device/ready_line.h"
#include "src/protocol/worker/exchange/operation.h"
#include "src/runtime/worker/engine.h"

namespace byteps::session {

// The threads and the memory for one device. The order matters: copies end before their memory.
struct DeviceLines {
  // Throws std::system_error if the system has no threads.
  DeviceLines(const std::shared_ptr<device::Device>& of, int number, size_t pinned_bytes_max,
              const std::function<void(const std::string&)>& warn)
      : name("cuda:" + std::to_string(number)),
        device(*of),
        pinned(of, pinned_bytes_max, warn),
        ready(of),
        down(of),
        up(of) {}

  const std::string name;
  device::Device& device;  // lives as long as the lines
  device::PinnedMemory pinned;
  device::ReadyLine ready;
  device::CopyLine down;  // from the device
  device::CopyLine up;
};

struct StagedOperation {
  enum class Stage : uint8_t {
    kWaiting,    // for the input's stream
    kTaking,     // pinned memory
    kCopying,    // the input
    kElsewhere,  // in the engine, or on the way from stage to stage
    kReturning,  // copying the result
  };

  bool OutputLiesInInput() const {
    return operation.output >= operation.input && operation.output < operation.input + input_bytes;
  }
  // Returns how many bytes of the host's memory the operation needs.
  size_t BytesInHost() const;
  std::byte* host_input() const { return block.data(); }
  std::byte* host_output() const;

  // The mutex of StagedOperations guards what these read.
  bool HasInput() const { return stage == Stage::kElsewhere || stage == Stage::kReturning; }
  // Returns when the watch must look at the operation; Time::max(): never.
  Time NextLook(Time now) const;
  bool IsAtLimit(Time now) const;
  bool HasNoPinnedMemory(Time now) const;
  bool IsLate(Time now) const;
  // Says what it waits for, for people.
  std::string WhyLate(Time now) const;

  uint64_t id = 0;
  DeviceLines* lines = nullptr;
  protocol::Operation operation;  // in the device's memory
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  Time begun;
  Duration limit{};         // zero: none
  Duration pinned_limit{};  // of the wait for pinned memory; then it takes ordinary memory
  runtime::Engine::Done done;
  protocol::Outcome outcome;
  device::PinnedMemory::Block block;

  // The mutex of StagedOperations guards these.
  Stage stage = Stage::kElsewhere;
  Time since;                 // in this stage
  bool copy_is_left = false;  // the input's copy is under way, and does not count any more
  bool has_outcome = false;   // of the engine, and waits for the copy
  bool has_begun = false;     // it was submitted
  bool is_told = false;       // a warning has named it
  bool has_ended = false;
};

}  // namespace byteps::session
