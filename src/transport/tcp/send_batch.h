// SendBatch: the frames of a FrameQueue that are being written to a byte stream, as scattered
// memory. Knows no socket.
//
// Frames that have begun stay first; frames that have not give way to more urgent ones. Belongs to
// one thread. Steady state allocates nothing.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <vector>

#include "src/transport/frame_queue.h"

namespace byteps::transport {

class SendBatch {
 public:
  // `queue` must outlive this object.
  explicit SendBatch(FrameQueue& queue) : queue_(queue) {}

  struct Gathered {
    size_t parts = 0;  // how many of `out` are set
    size_t bytes = 0;
  };

  // Names the bytes to write next, in order, at most `bytes_max`, and for each part the buffer that
  // keeps it, or null. Both stay valid until Written, Clear or a change of the queue.
  // REQUIRES: `keeps` is as long as `out`.
  Gathered Gather(std::span<iovec> out, std::span<const BufferRef*> keeps, size_t bytes_max);

  // Notes that the first `bytes` of the gathered bytes have been written. Releases frames that are
  // written completely.
  void Written(size_t bytes);

  bool empty() const { return taken_.empty() && queue_.empty(); }
  // Returns whether no frame has begun that is not written completely.
  bool at_border() const { return first_written_ == 0; }
  // Returns the bytes that are not written yet, of this batch and of the queue.
  size_t bytes() const { return queue_.bytes() - first_written_; }

  // Drops everything, the queue included.
  void Clear();

 private:
  void YieldToMoreUrgent();

  FrameQueue& queue_;
  std::vector<FrameQueue::Ticket> taken_;
  size_t first_written_ = 0;  // bytes of the first frame that are written
};

}  // namespace byteps::transport
