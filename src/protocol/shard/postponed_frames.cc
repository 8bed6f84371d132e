#include "src/protocol/shard/postponed_frames.h"

#include <utility>

namespace byteps::protocol {

bool PostponedFrames::MustWait(Slot from, uint64_t epoch) const {
  return options_.rules->MustWait(epoch, view_.epoch()) || !queues_[from].frames.empty();
}

Status PostponedFrames::Check(Slot from) const {
  if (queues_[from].bytes <= options_.postponed_bytes_max) return Status::Ok();
  return {StatusCode::kExhausted,
          members_.NameOf(from) + " sent " + std::to_string(queues_[from].bytes) +
              " bytes for a view that is not here yet; they are read when it is"};
}

void PostponedFrames::Add(Slot from, wire::FrameKind kind, uint64_t epoch, PostponedFrame frame) {
  frame.kind = kind;
  frame.epoch = epoch;
  queues_[from].bytes += frame.bytes();
  queues_[from].frames.push_back(std::move(frame));
}

Status PostponedFrames::AddData(Slot from, wire::FrameKind kind, Incoming& incoming,
                                BufferPool& pool) {
  Status checked = Check(from);
  if (!checked.ok()) return checked;
  PostponedFrame frame;
  frame.header = incoming.header;
  frame.payload = pool.Take(incoming.payload_bytes);
  frame.payload_bytes = incoming.payload_bytes;
  frame.complete = false;
  incoming.fate = Fate::kPostponed;
  incoming.place = ByteSpan(frame.payload.data(), frame.payload_bytes);
  Add(from, kind, incoming.header.epoch, std::move(frame));
  return checked;
}

std::optional<PostponedFrame> PostponedFrames::TakeNext(Slot from) {
  Queue& queue = queues_[from];
  if (queue.frames.empty() || !queue.frames.front().complete ||
      queue.frames.front().epoch > view_.epoch()) {
    return std::nullopt;
  }
  PostponedFrame frame = std::move(queue.frames.front());
  queue.frames.pop_front();
  queue.bytes -= frame.bytes();
  return frame;
}

}  // namespace byteps::protocol
