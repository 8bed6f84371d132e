// Frames that wait for a view. What names a newer epoch than the one in force is postponed, and so
// is everything behind it on its connection, so that order is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/base/types.h"
#include "src/protocol/shard/intake.h"
#include "src/protocol/shard/shard_options.h"
#include "src/protocol/shard/state/members.h"
#include "src/protocol/shard/state/shard_view.h"
#include "src/wire/data.h"
#include "src/wire/frame_kind.h"

namespace byteps::protocol {

// What a frame said; which fields count depends on its kind.
struct PostponedFrame {
  wire::FrameKind kind = wire::FrameKind::kPush;
  uint64_t epoch = 0;
  wire::DataHeader header;  // push, verdict and abort
  BufferRef payload;        // push and verdict
  size_t payload_bytes = 0;
  uint64_t number = 0;  // ack: answers received; joined: the join; group: the process set
  std::vector<wire::HeldPiece> pieces;
  std::string text;
  std::vector<std::byte> bitmap;
  bool complete = true;  // false while the payload comes in

  size_t bytes() const {
    return sizeof(PostponedFrame) + payload_bytes + pieces.size() * sizeof(wire::HeldPiece) +
           text.size() + bitmap.size();
  }
};

// One thread at a time. REQUIRES of all that take a slot: it is one of the generation's.
class PostponedFrames {
 public:
  // What it works with; all of it outlives this.
  PostponedFrames(const ShardOptions& options, const ShardView& view, const Members& members)
      : options_(options), view_(view), members_(members) {}

  // A view is in force; what waits for this very view is not lost.
  void OnView() { queues_.resize(members_.size()); }

  // A frame of `epoch` must be postponed: its view is not here, or something waits before it.
  bool MustWait(Slot from, uint64_t epoch) const;
  // kExhausted: more of `from` waits than the limit. It can be exceeded by one frame.
  Status Check(Slot from) const;

  void Add(Slot from, wire::FrameKind kind, uint64_t epoch, PostponedFrame frame);
  // The header of a push or a verdict: writes down where its payload goes; header and size of
  // `incoming` are filled in. kExhausted as Check.
  Status AddData(Slot from, wire::FrameKind kind, Incoming& incoming, BufferPool& pool);
  // The payload of the last frame of `from` is here.
  void CompleteLast(Slot from) { queues_[from].frames.back().complete = true; }

  // Takes the oldest frame of `from` if it is whole and its view is in force.
  std::optional<PostponedFrame> TakeNext(Slot from);
  // The connection is gone: on the next one it says all again.
  void ForgetConnection(Slot from) { queues_[from] = Queue(); }

 private:
  struct Queue {
    std::deque<PostponedFrame> frames;
    size_t bytes = 0;
  };

  const ShardOptions options_;
  const ShardView& view_;
  const Members& members_;
  std::vector<Queue> queues_;  // by slot
};

}  // namespace byteps::protocol
