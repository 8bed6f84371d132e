// FrameQueue: frames that wait to leave one connection, the most urgent first, equal ones in the
// order in which they came. It reuses its storage, so steady state allocates nothing.
//
// Belongs to one thread. A frame is waiting until Take, then taken until Release or PutBack; its
// payload stays borrowed, and its buffer kept, until Release or Clear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/types.h"
#include "src/transport/transport.h"

namespace byteps::transport {

class FrameQueue {
 public:
  // Names a taken frame.
  using Ticket = uint32_t;

  struct Entry {
    // The prefix and the header as they go onto a byte stream; only the first head_bytes are used.
    std::byte head[kFramePrefixBytes + kHeaderBytesMax];
    uint32_t head_bytes = 0;
    uint8_t kind = 0;
    ConstByteSpan payload;
    BufferRef keep;
    int64_t urgency = 0;
    uint64_t order = 0;

    size_t bytes() const { return head_bytes + payload.size(); }
    ConstByteSpan header() const {
      return ConstByteSpan(head, head_bytes).subspan(kFramePrefixBytes);
    }
  };

  // REQUIRES: header_bytes <= kHeaderBytesMax, the payload is smaller than 4 GiB.
  void Push(OutFrame frame);

  // Returns whether no frame waits (taken ones do not count).
  bool empty() const { return waiting_.empty(); }
  // Returns the bytes of all frames, waiting and taken.
  size_t bytes() const { return bytes_; }

  // Takes the frame that leaves next. REQUIRES: !empty().
  Ticket Take();
  // Lets the taken frame wait again, in its old place.
  void PutBack(Ticket ticket);
  // Returns whether a waiting frame goes before the taken one.
  bool Overtakes(Ticket ticket) const;
  const Entry& Get(Ticket ticket) const { return entries_[ticket]; }
  void Release(Ticket ticket);

  // Makes frames that borrow from `memory` borrow from a copy in `pool` instead.
  void Detach(ConstByteSpan memory, BufferPool& pool);

  // Releases all frames, waiting and taken.
  void Clear();

 private:
  bool Before(Ticket left, Ticket right) const;

  std::vector<Entry> entries_;
  std::vector<Ticket> free_;
  std::vector<Ticket> waiting_;  // a heap, the next to leave on top
  uint64_t next_order_ = 0;
  size_t bytes_ = 0;
};

}  // namespace byteps::transport
