#include "src/session/device/staged_operation.h"

#include <algorithm>

#include "src/base/buffer_source.h"
#include "src/base/text.h"

namespace byteps::session {
namespace {

size_t Aligned(uint64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace

size_t StagedOperation::BytesInHost() const {
  if (by_pieces) return 1;  // a block that comes after what the engine needs
  return OutputLiesInInput() ? input_bytes : Aligned(input_bytes) + output_bytes;
}

std::byte* StagedOperation::host_output() const {
  if (output_bytes == 0) return nullptr;
  if (OutputLiesInInput()) return block.data() + (operation.output - operation.input);
  return block.data() + Aligned(input_bytes);
}

Time StagedOperation::NextLook(Time now) const {
  // The engine copies pieces, and does not look at the time.
  const bool is_copied = by_pieces && has_begun && !has_ended;
  if (stage == Stage::kElsewhere) return is_copied ? now + kLateAfter : Time::max();
  // An operation that is late already is looked at from time to time.
  Time next = std::max(since + kLateAfter, now + kLateAfter / 2);
  if (stage == Stage::kTaking) next = std::min(next, since + pinned_limit);
  if (limit > Duration::zero() && !HasInput() && now < begun + limit) {
    next = std::min(next, begun + limit);
  }
  return next;
}

bool StagedOperation::IsAtLimit(Time now) const {
  return limit > Duration::zero() && !HasInput() && now >= begun + limit;
}

bool StagedOperation::HasNoPinnedMemory(Time now) const {
  return stage == Stage::kTaking && now >= since + pinned_limit;
}

bool StagedOperation::IsLate(Time now) const {
  return stage != Stage::kElsewhere && now >= since + kLateAfter;
}

std::string StagedOperation::WhyLate(Time now) const {
  const std::string tensor = "tensor '" + operation.name + "' ";
  const std::string age = SecondsText(now - since);
  switch (stage) {
    case Stage::kWaiting:
      return tensor + "has waited for its input on " + lines->name + " for " + age +
             ": the work of its stream has not ended";
    case Stage::kTaking: return tensor + "has waited for pinned memory for " + age;
    default: return WhyLateCopy(stage == Stage::kReturning, now - since);
  }
}

std::string StagedOperation::WhyLateCopy(bool to_device, Duration age) const {
  return "tensor '" + operation.name + "' has waited for a copy " + (to_device ? "to " : "from ") +
         lines->name + " for " + SecondsText(age) +
         ": the CUDA driver does not answer, or the GPU is busy";
}

}  // namespace byteps::session
