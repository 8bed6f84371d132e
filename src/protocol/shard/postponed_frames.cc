#include "src/protocol/shard/postponed_frames.h"

#include <utility>

namespace byteps::protocol {

uint64_t PostponedFrame::epoch() const {
  const auto* data = std::get_if<wire::DataFrame>(&frame);
  return data != nullptr ? data->header.epoch : wire::EpochOf(std::get<wire::Frame>(frame));
}

size_t PostponedFrame::bytes() const {
  const auto* data = std::get_if<wire::DataFrame>(&frame);
  size_t payload =
      data != nullptr ? data->payload.size() : wire::BytesOf(std::get<wire::Frame>(frame));
  return sizeof(PostponedFrame) + payload;
}

bool PostponedFrames::MustWait(Slot from, uint64_t epoch) const {
  return options_.rules->MustWait(epoch, view_.epoch()) || !queues_[from].frames.empty();
}

Status PostponedFrames::Check(Slot from) const {
  if (queues_[from].bytes <= options_.postponed_bytes_max) return Status::Ok();
  return {StatusCode::kExhausted,
          members_.NameOf(from) + " sent " + std::to_string(queues_[from].bytes) +
              " bytes for a view that is not here yet; they are read when it is"};
}

void PostponedFrames::Push(Slot from, PostponedFrame frame) {
  queues_[from].bytes += frame.bytes();
  queues_[from].frames.push_back(std::move(frame));
}

Status PostponedFrames::AddData(Slot from, wire::FrameKind kind, Incoming& incoming,
                                BufferPool& pool) {
  Status checked = Check(from);
  if (!checked.ok()) return checked;
  BufferRef keep = pool.Take(incoming.payload_bytes);
  incoming.fate = Fate::kPostponed;
  incoming.place = ByteSpan(keep.data(), incoming.payload_bytes);
  Push(from, {wire::DataFrame{kind, incoming.header, incoming.place, std::move(keep)}, false});
  return checked;
}

std::optional<PostponedFrame> PostponedFrames::TakeNext(Slot from) {
  Queue& queue = queues_[from];
  if (queue.frames.empty() || !queue.frames.front().complete ||
      queue.frames.front().epoch() > view_.epoch()) {
    return std::nullopt;
  }
  PostponedFrame frame = std::move(queue.frames.front());
  queue.frames.pop_front();
  queue.bytes -= frame.bytes();
  return frame;
}

}  // namespace byteps::protocol
