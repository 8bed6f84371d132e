#include "src/protocol/shard/state/round.h"

#include <utility>

namespace byteps::protocol {

// The root of a broadcast also wants nothing, but it is not idle, because it has all bytes.
void Announce(Contribution& contribution, const wire::DataHeader& header, size_t payload_bytes) {
  bool has_all = header.combine == Combine::kOverlay && payload_bytes == header.piece_bytes;
  contribution.want_offset = header.want_offset;
  contribution.want_bytes = header.want_bytes;
  contribution.priority = header.priority;
  contribution.idle = header.want_bytes == 0 && header.piece_bytes > 0 && !has_all;
}

void Round::Begin(uint64_t serial, const wire::DataHeader& header, ProcessSet& set, Slot slots) {
  serial_ = serial;
  ref_ = header.ref;
  combine_ = header.combine;
  dtype_ = header.dtype;
  piece_bytes_ = header.piece_bytes;
  codec_ = header.codec;
  set_ = &set;
  missing_ = set.present_count();
  pushed_bytes_ = 0;
  contributions_.assign(slots, Contribution());
  order_of_arrival_.clear();
  failure_.reset();
  lacks_a_part_ = false;
}

void Round::End() {
  for (Contribution& contribution : contributions_) contribution.buffer = BufferRef();
  overlay_ = BufferRef();
  set_ = nullptr;
}

ByteSpan Round::PlaceOf(Slot from, const wire::DataHeader& header, size_t payload_bytes,
                        BufferPool& pool, BufferRef& keep) {
  Contribution& contribution = contributions_[from];
  contribution.begun = true;
  if (combine_ == Combine::kOverlay) {
    if (!overlay_) overlay_ = pool.Take(piece_bytes_);
    keep = overlay_;
    return ByteSpan(overlay_.data() + header.offset, payload_bytes);
  }
  contribution.buffer = pool.Take(payload_bytes);
  keep = contribution.buffer;
  return ByteSpan(keep.data(), payload_bytes);
}

void Round::Arrive(Slot from, const wire::DataHeader& header, size_t payload_bytes, bool awaited) {
  Contribution& contribution = contributions_[from];
  Announce(contribution, header, payload_bytes);
  contribution.bytes = static_cast<uint32_t>(payload_bytes);
  contribution.begun = false;
  contribution.arrived = true;
  if (awaited) --missing_;
  pushed_bytes_ += payload_bytes;
  order_of_arrival_.push_back(from);
}

void Round::ArriveAborted(Slot from, const wire::DataHeader& header, bool awaited) {
  DropBegun(from);
  Arrive(from, header, 0, awaited);
  contributions_[from].aborted = true;
  lacks_a_part_ = true;
}

void Round::DropBegun(Slot from) {
  if (from >= contributions_.size() || contributions_[from].arrived) return;
  contributions_[from] = Contribution();
}

void Round::Fail(const Status& why) {
  if (!failure_.has_value()) failure_ = why;
}

}  // namespace byteps::protocol
