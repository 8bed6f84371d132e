#include "src/transport/frame_queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/check.h"

namespace byteps::transport {
namespace {

// Writes little-endian bytes, whatever the machine's order.
void EncodePrefix(const OutFrame& frame, std::byte* out) {
  uint64_t payload_bytes = frame.payload.size();
  for (int i = 0; i < 4; ++i) out[i] = static_cast<std::byte>(payload_bytes >> (8 * i));
  for (int i = 0; i < 2; ++i) out[4 + i] = static_cast<std::byte>(frame.header_bytes >> (8 * i));
  out[6] = static_cast<std::byte>(frame.kind);
  out[7] = std::byte{0};
}

}  // namespace

bool FrameQueue::Before(Ticket left, Ticket right) const {
  const Entry& a = entries_[left];
  const Entry& b = entries_[right];
  return a.urgency != b.urgency ? a.urgency > b.urgency : a.order < b.order;
}

void FrameQueue::Push(OutFrame frame) {
  BYTEPS_CHECK(frame.header_bytes <= kHeaderBytesMax);
  BYTEPS_CHECK(frame.payload.size() <= UINT32_MAX);
  Ticket ticket;
  if (free_.empty()) {
    ticket = static_cast<Ticket>(entries_.size());
    entries_.emplace_back();
  } else {
    ticket = free_.back();
    free_.pop_back();
  }
  Entry& entry = entries_[ticket];
  EncodePrefix(frame, entry.head);
  std::memcpy(entry.head + kFramePrefixBytes, frame.header, frame.header_bytes);
  entry.head_bytes = static_cast<uint32_t>(kFramePrefixBytes) + frame.header_bytes;
  entry.kind = frame.kind;
  entry.payload = frame.payload;
  entry.keep = std::move(frame.keep);
  entry.urgency = frame.urgency;
  entry.order = next_order_++;
  bytes_ += entry.bytes();
  PutBack(ticket);
}

FrameQueue::Ticket FrameQueue::Take() {
  BYTEPS_CHECK(!waiting_.empty());
  auto later = [this](Ticket left, Ticket right) { return Before(right, left); };
  std::pop_heap(waiting_.begin(), waiting_.end(), later);
  Ticket ticket = waiting_.back();
  waiting_.pop_back();
  return ticket;
}

void FrameQueue::PutBack(Ticket ticket) {
  auto later = [this](Ticket left, Ticket right) { return Before(right, left); };
  waiting_.push_back(ticket);
  std::push_heap(waiting_.begin(), waiting_.end(), later);
}

bool FrameQueue::Overtakes(Ticket ticket) const {
  return !waiting_.empty() && Before(waiting_.front(), ticket);
}

void FrameQueue::Release(Ticket ticket) {
  Entry& entry = entries_[ticket];
  bytes_ -= entry.bytes();
  entry.payload = {};
  entry.keep = BufferRef();
  free_.push_back(ticket);
}

void FrameQueue::Detach(ConstByteSpan memory, BufferPool& pool) {
  for (Entry& entry : entries_) {
    if (!Overlap(memory, entry.payload)) continue;
    entry.keep = pool.Take(entry.payload.size());
    std::memcpy(entry.keep.data(), entry.payload.data(), entry.payload.size());
    entry.payload = ConstByteSpan(entry.keep.data(), entry.payload.size());
  }
}

void FrameQueue::Clear() {
  waiting_.clear();
  free_.clear();
  entries_.clear();
  bytes_ = 0;
}

}  // namespace byteps::transport
