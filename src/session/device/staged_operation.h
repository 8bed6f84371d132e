// One operation in a device's memory. StagedOperations owns these. An operation that goes whole is
// carried out in the host's memory; one that goes by pieces is copied by the engine,
// piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "src/base/time.h"
#include "src/device/device_lines.h"
#include "src/device/pinned_memory.h"
#include "src/protocol/worker/exchange/operation.h"
#include "src/runtime/worker/engine.h"

namespace byteps::session {

using device::DeviceLines;

struct StagedOperation {
  enum class Stage : uint8_t {
    kWaiting,    // for the input's stream
    kTaking,     // pinned memory
    kCopying,    // the input
    kElsewhere,  // in the engine, or on the way from stage to stage
    kReturning,  // copying the result, or the last pieces
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
  std::string WhyLateCopy(bool to_device, Duration age) const;

  // When a stage before the engine, or a copy, is late.
  static constexpr Duration kLateAfter = seconds(1);

  uint64_t id = 0;
  DeviceLines* lines = nullptr;
  protocol::Operation operation;  // in the device's memory
  bool by_pieces = false;
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
