// Pieces that wait to be sent: the most urgent first, with a bound on the bytes in flight.
//
// Order is urgency (higher first), then order (lower first). A small credit keeps an urgent tensor
// from waiting behind bytes that already left. An entry fits when its bytes do not bring the bytes
// in flight above the credit, or when nothing is in flight. While the most urgent entry does not
// fit, nothing less urgent overtakes it, or large pieces would starve.
//
// One exception keeps ranks that submit tensors in different order from hanging: an entry that its
// owner waits for (MarkWanted) needs no credit. It keeps its place in the order.
//
// Every operation is O(log n); steady state allocates nothing. One owner, one thread; no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace byteps::plan {

class PriorityCreditQueue {
 public:
  struct Entry {
    int64_t urgency = 0;
    uint64_t order = 0;
    uint32_t bytes = 0;
    uint64_t task = 0;  // belongs to the caller; the queue ignores it

    friend bool operator==(const Entry&, const Entry&) = default;
  };

  // Names an entry while it is queued. A ticket is never valid again after its entry left, so an
  // outdated one is harmless.
  using Ticket = uint64_t;
  static constexpr Ticket kNoTicket = 0;

  // Entries of equal urgency and order leave in an unspecified order.
  Ticket Push(const Entry& entry);

  // Returns the most urgent entry that may leave: any wanted entry, or the first of the others if
  // it fits `credit_bytes`. Its bytes are then in flight. Returns nothing if no entry may leave.
  std::optional<Entry> Pop(uint64_t credit_bytes);

  // Ends the flight of `bytes` that Pop gave.
  void Returned(uint64_t bytes);

  // Lets the entry pass the credit from now on, because its owner waits for it. Returns false if
  // the entry is no longer queued.
  bool MarkWanted(Ticket ticket);

  // Takes an entry out without sending it. Returns false if the entry is no longer queued.
  bool Remove(Ticket ticket);

  // Returns true if entries wait and Pop(credit_bytes) would give none, because the credit holds
  // them back.
  bool IsBlocked(uint64_t credit_bytes) const;

  bool empty() const { return heaps_[0].empty() && heaps_[1].empty(); }
  size_t size() const { return heaps_[0].size() + heaps_[1].size(); }
  uint64_t bytes_in_flight() const { return bytes_in_flight_; }

 private:
  // A place for one entry. When the entry leaves, the place stays for the next one. A ticket names
  // the place and how often it was used.
  struct Place {
    Entry entry;
    uint32_t use = 0;       // odd while an entry is here
    uint32_t heap = 0;      // kOrdinary or kWanted
    uint32_t position = 0;  // in that heap
  };
  // A node has the key beside the index, so that sifting stays within one array.
  struct Node {
    int64_t urgency;
    uint64_t order;
    uint32_t place;
  };
  using Heap = std::vector<Node>;
  static constexpr uint32_t kOrdinary = 0;
  static constexpr uint32_t kWanted = 1;

  static bool Before(const Node& a, const Node& b);
  bool Fits(const Node& node, uint64_t credit_bytes) const;
  std::optional<uint32_t> Find(Ticket ticket) const;
  uint32_t TakePlace();
  void Insert(uint32_t place, uint32_t heap);
  void Erase(uint32_t place);
  Entry Release(uint32_t place);
  void Settle(Heap& heap, uint32_t position, const Node& node);
  void SiftUp(Heap& heap, uint32_t position, const Node& node);
  void SiftDown(Heap& heap, uint32_t position, const Node& node);

  std::vector<Place> places_;
  std::vector<uint32_t> free_places_;
  Heap heaps_[2];
  uint64_t bytes_in_flight_ = 0;
};

}  // namespace byteps::plan
