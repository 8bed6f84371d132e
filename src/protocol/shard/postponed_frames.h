// Frames that wait for a view. A frame that names a newer epoch than the one in force is postponed.
// So are all frames behind it on its connection, which keeps the order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/base/types.h"
#include "src/protocol/shard/intake.h"
#include "src/protocol/shard/shard_options.h"
#include "src/protocol/shard/state/members.h"
#include "src/protocol/shard/state/shard_view.h"
#include "src/wire/frame.h"

namespace byteps::protocol {

// A push or a verdict, or any other frame of a worker.
struct PostponedFrame {
  std::variant<wire::DataFrame, wire::Frame> frame;
  bool complete = true;  // false while the payload comes in

  uint64_t epoch() const;
  size_t bytes() const;
};

// One thread at a time. REQUIRES of all methods that take a slot: the slot belongs to the
// generation.
class PostponedFrames {
 public:
  // All arguments must outlive this object.
  PostponedFrames(const ShardOptions& options, const ShardView& view, const Members& members)
      : options_(options), view_(view), members_(members) {}

  // Makes room for the slots of a new view. Frames that wait for this view stay.
  void OnView() { queues_.resize(members_.size()); }

  // Returns whether a frame of `epoch` must be postponed: its view is not here, or another frame
  // waits before it.
  bool MustWait(Slot from, uint64_t epoch) const;
  // Returns kExhausted if more bytes of `from` wait than the limit. One frame may exceed the limit.
  Status Check(Slot from) const;

  void Add(Slot from, wire::Frame frame) { Push(from, {std::move(frame)}); }
  // Adds the header of a push or a verdict, and fills in where its payload goes. REQUIRES: header
  // and size of `incoming` are filled in. kExhausted: see Check.
  Status AddData(Slot from, wire::FrameKind kind, Incoming& incoming, BufferPool& pool);
  // Notes that the payload of the last frame of `from` is here.
  void CompleteLast(Slot from) { queues_[from].frames.back().complete = true; }

  // Takes out the oldest frame of `from`, if it is whole and its view is in force.
  std::optional<PostponedFrame> TakeNext(Slot from);
  // Drops the frames of a connection that is gone. On the next connection its member says
  // everything again.
  void ForgetConnection(Slot from) { queues_[from] = Queue(); }

 private:
  struct Queue {
    std::deque<PostponedFrame> frames;
    size_t bytes = 0;
  };
  void Push(Slot from, PostponedFrame frame);

  const ShardOptions options_;
  const ShardView& view_;
  const Members& members_;
  std::vector<Queue> queues_;  // by slot
};

}  // namespace byteps::protocol
