#include "src/transport/tcp/send_batch.h"

#include <algorithm>

namespace byteps::transport {
namespace {

iovec Part(const std::byte* bytes, size_t size) {
  // The cast is safe: iovec has no const, but sendmsg does not write.
  return iovec{const_cast<std::byte*>(bytes), size};  // NOLINT
}

}  // namespace

void SendBatch::YieldToMoreUrgent() {
  size_t begun = first_written_ > 0 ? 1 : 0;
  if (taken_.size() <= begun || !queue_.Overtakes(taken_.back())) return;
  for (size_t i = begun; i < taken_.size(); ++i) queue_.PutBack(taken_[i]);
  taken_.resize(begun);
}

SendBatch::Gathered SendBatch::Gather(std::span<iovec> out, std::span<const BufferRef*> keeps,
                                      size_t bytes_max) {
  YieldToMoreUrgent();
  Gathered gathered;
  auto add = [&](ConstByteSpan bytes, const BufferRef* keep) {
    size_t size = std::min(bytes.size(), bytes_max - gathered.bytes);
    if (size == 0) return;
    keeps[gathered.parts] = keep;
    out[gathered.parts++] = Part(bytes.data(), size);
    gathered.bytes += size;
  };
  size_t skip = first_written_;
  // A frame has at most two parts: its head and its payload.
  for (size_t i = 0; gathered.parts + 2 <= out.size() && gathered.bytes < bytes_max; ++i) {
    if (i == taken_.size()) {
      if (queue_.empty()) break;
      taken_.push_back(queue_.Take());
    }
    const FrameQueue::Entry& frame = queue_.Get(taken_[i]);
    size_t head_skip = std::min<size_t>(skip, frame.head_bytes);
    add(ConstByteSpan(frame.head, frame.head_bytes).subspan(head_skip), nullptr);
    add(frame.payload.subspan(skip - head_skip), frame.keep ? &frame.keep : nullptr);
    skip = 0;
  }
  return gathered;
}

void SendBatch::Written(size_t bytes) {
  first_written_ += bytes;
  size_t through = 0;
  for (; through < taken_.size(); ++through) {
    size_t frame_bytes = queue_.Get(taken_[through]).bytes();
    if (first_written_ < frame_bytes) break;
    first_written_ -= frame_bytes;
    queue_.Release(taken_[through]);
  }
  taken_.erase(taken_.begin(), taken_.begin() + static_cast<std::ptrdiff_t>(through));
}

void SendBatch::Clear() {
  queue_.Clear();
  taken_.clear();
  first_written_ = 0;
}

}  // namespace byteps::transport
