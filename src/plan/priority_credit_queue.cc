#include "src/plan/priority_credit_queue.h"

#include <algorithm>

#include "src/base/check.h"

namespace byteps::plan {

bool PriorityCreditQueue::Before(const Node& a, const Node& b) {
  return a.urgency != b.urgency ? a.urgency > b.urgency : a.order < b.order;
}

bool PriorityCreditQueue::Fits(const Node& node, uint64_t credit_bytes) const {
  if (bytes_in_flight_ == 0) return true;
  if (bytes_in_flight_ > credit_bytes) return false;
  return places_[node.place].entry.bytes <= credit_bytes - bytes_in_flight_;
}

PriorityCreditQueue::Ticket PriorityCreditQueue::Push(const Entry& entry) {
  const uint32_t index = TakePlace();
  Place& place = places_[index];
  place.entry = entry;
  ++place.use;
  Insert(index, kOrdinary);
  return (Ticket{place.use} << 32) | index;
}

std::optional<PriorityCreditQueue::Entry> PriorityCreditQueue::Pop(uint64_t credit_bytes) {
  const Heap& ordinary = heaps_[kOrdinary];
  const Heap& wanted = heaps_[kWanted];
  const Node* best = wanted.empty() ? nullptr : &wanted.front();
  if (!ordinary.empty() && (best == nullptr || Before(ordinary.front(), *best)) &&
      Fits(ordinary.front(), credit_bytes)) {
    best = &ordinary.front();
  }
  if (best == nullptr) return std::nullopt;
  const Entry entry = Release(best->place);
  bytes_in_flight_ += entry.bytes;
  return entry;
}

void PriorityCreditQueue::Returned(uint64_t bytes) {
  BYTEPS_CHECK(bytes <= bytes_in_flight_);
  bytes_in_flight_ -= std::min(bytes, bytes_in_flight_);
}

bool PriorityCreditQueue::MarkWanted(Ticket ticket) {
  const std::optional<uint32_t> place = Find(ticket);
  if (!place) return false;
  if (places_[*place].heap == kWanted) return true;
  Erase(*place);
  Insert(*place, kWanted);
  return true;
}

bool PriorityCreditQueue::Remove(Ticket ticket) {
  const std::optional<uint32_t> place = Find(ticket);
  if (!place) return false;
  Release(*place);
  return true;
}

bool PriorityCreditQueue::IsBlocked(uint64_t credit_bytes) const {
  return heaps_[kWanted].empty() && !heaps_[kOrdinary].empty() &&
         !Fits(heaps_[kOrdinary].front(), credit_bytes);
}

std::optional<uint32_t> PriorityCreditQueue::Find(Ticket ticket) const {
  const uint32_t index = static_cast<uint32_t>(ticket);
  const uint32_t use = static_cast<uint32_t>(ticket >> 32);
  if (index >= places_.size() || use % 2 == 0 || places_[index].use != use) return std::nullopt;
  return index;
}

// Takes the place that was used last, because it is still in the cache.
uint32_t PriorityCreditQueue::TakePlace() {
  if (free_places_.empty()) {
    places_.emplace_back();
    // The list has room for all places, so that a full drain, which frees every place, allocates
    // nothing.
    free_places_.reserve(places_.capacity());
    return static_cast<uint32_t>(places_.size() - 1);
  }
  const uint32_t index = free_places_.back();
  free_places_.pop_back();
  return index;
}

PriorityCreditQueue::Entry PriorityCreditQueue::Release(uint32_t place) {
  Erase(place);
  ++places_[place].use;
  free_places_.push_back(place);
  return places_[place].entry;
}

void PriorityCreditQueue::Insert(uint32_t place, uint32_t heap_index) {
  Heap& heap = heaps_[heap_index];
  const Entry& entry = places_[place].entry;
  const Node node{entry.urgency, entry.order, place};
  places_[place].heap = heap_index;
  heap.push_back(node);
  SiftUp(heap, static_cast<uint32_t>(heap.size() - 1), node);
}

// The last node takes the hole, and moves from there to where it belongs.
void PriorityCreditQueue::Erase(uint32_t place) {
  Heap& heap = heaps_[places_[place].heap];
  const uint32_t hole = places_[place].position;
  const Node last = heap.back();
  heap.pop_back();
  if (hole == heap.size()) return;
  if (hole > 0 && Before(last, heap[(hole - 1) / 2])) {
    SiftUp(heap, hole, last);
  } else {
    SiftDown(heap, hole, last);
  }
}

void PriorityCreditQueue::Settle(Heap& heap, uint32_t position, const Node& node) {
  heap[position] = node;
  places_[node.place].position = position;
}

void PriorityCreditQueue::SiftUp(Heap& heap, uint32_t position, const Node& node) {
  while (position > 0) {
    const uint32_t parent = (position - 1) / 2;
    if (!Before(node, heap[parent])) break;
    Settle(heap, position, heap[parent]);
    position = parent;
  }
  Settle(heap, position, node);
}

void PriorityCreditQueue::SiftDown(Heap& heap, uint32_t position, const Node& node) {
  const uint64_t size = heap.size();
  while (2ULL * position + 1 < size) {
    uint32_t child = 2 * position + 1;
    if (child + 1 < size && Before(heap[child + 1], heap[child])) ++child;
    if (!Before(heap[child], node)) break;
    Settle(heap, position, heap[child]);
    position = child;
  }
  Settle(heap, position, node);
}

}  // namespace byteps::plan
