#include "src/protocol/shard/combiner.h"

namespace byteps::protocol {

BufferRef Combiner::Combine(const Round& round, uint32_t divisor) {
  if (round.combine() == byteps::Combine::kOverlay) return round.overlay();
  if (round.combine() == byteps::Combine::kLast) return LastOf(round);
  inputs_.clear();
  const BufferRef* target = nullptr;
  for (const Contribution& contribution : round.contributions()) {
    if (!contribution.arrived) continue;
    if (target == nullptr) target = &contribution.buffer;
    inputs_.push_back(contribution.buffer.data());
  }
  size_t bytes = round.piece_bytes();
  if (bytes > 0 && round.combine() == byteps::Combine::kAverage) {
    arithmetic_.Average(round.dtype(), target->data(), inputs_, bytes, divisor);
  } else if (bytes > 0 && inputs_.size() > 1) {
    arithmetic_.Combine(round.combine(), round.dtype(), target->data(), inputs_, bytes);
  }
  return *target;
}

// Of those who are still there, if there are any.
BufferRef Combiner::LastOf(const Round& round) const {
  Slot last = round.order_of_arrival().back();
  for (Slot slot : round.order_of_arrival()) {
    if (members_.IsPresent(slot) || !members_.IsPresent(last)) last = slot;
  }
  return round.contributions()[last].buffer;
}

}  // namespace byteps::protocol
