#include "src/transport/rdma/rdma_channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace byteps::transport {
namespace {

// A part of this size gets messages of its own, so that it can lie alone in a slot. Smaller parts
// share a message.
constexpr size_t kLargePartBytes = 4096;

}  // namespace

// The parts that are not sent yet.
class RdmaChannel::Rest {
 public:
  // `keeps`: as long as `parts`, or empty.
  Rest(std::span<const iovec> parts, std::span<const BufferRef* const> keeps)
      : parts_(parts), keeps_(keeps) {
    SkipEmpty();
  }

  bool empty() const { return parts_.empty(); }
  ConstByteSpan front() const {
    const iovec& part = parts_.front();
    return ConstByteSpan(static_cast<const std::byte*>(part.iov_base), part.iov_len).subspan(at_);
  }
  // Returns whether a large part is next, or a short one that fits into its message's head, such as
  // the head of a frame.
  bool IsAtLargePart() const {
    if (front().size() >= kLargePartBytes) return true;
    return IsAtItsHead();
  }
  bool IsAtItsHead() const {
    return front().size() <= kHeadStreamBytesMax && parts_.size() > 1 &&
           parts_[1].iov_len >= kLargePartBytes;
  }
  // Returns the buffer in which the first part lies; null: none.
  const BufferRef* keep() const { return keeps_.empty() ? nullptr : keeps_.front(); }
  void Skip(size_t bytes) {
    at_ += bytes;
    SkipEmpty();
  }
  // Copies as many bytes of the first part as there is room for, and returns how many.
  size_t Take(ByteSpan into) {
    ConstByteSpan from = front();
    size_t count = std::min(from.size(), into.size());
    std::memcpy(into.data(), from.data(), count);
    Skip(count);
    return count;
  }

 private:
  void SkipEmpty() {
    while (!parts_.empty() && at_ == parts_.front().iov_len) {
      parts_ = parts_.subspan(1);
      if (!keeps_.empty()) keeps_ = keeps_.subspan(1);
      at_ = 0;
    }
  }

  std::span<const iovec> parts_;
  std::span<const BufferRef* const> keeps_;
  size_t at_ = 0;
};

// The other end sends nothing over TCP any more, so the socket is readable when it ends.
void RdmaChannel::Woken() {
  if (ended_ || spoke_) return;
  std::byte byte{};
  ssize_t count = recv(socket_, &byte, sizeof(byte), MSG_DONTWAIT);
  if (count > 0) spoke_ = true;
  if (count == 0) ended_ = true;
  if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) ended_ = true;
}

// ---- receiving ----

ByteChannel::Passed RdmaChannel::Receive(std::span<const iovec> parts) {
  Passed passed;
  for (const iovec& part : parts) {
    ByteSpan rest(static_cast<std::byte*>(part.iov_base), part.iov_len);
    while (!rest.empty() && passed.stop == kThrough) {
      if (pair_->HasMessage()) {
        const bool in_head = used_bytes_ < pair_->front().stream_bytes;
        size_t count = TakeSome(rest);
        rest = rest.subspan(count);
        passed.bytes += count;
        // The stream may find a place for the payload, once it has read the head.
        if (in_head && IsBeforePayload()) {
          pair_->Flush();
          return passed;
        }
      } else {
        passed.stop = WhyNothing();
      }
    }
  }
  pair_->Flush();
  return passed;
}

size_t RdmaChannel::TakeSome(ByteSpan into) {
  const QueuePair::Message message = pair_->front();
  ConstByteSpan from = pair_->HeadBytesOf(message);
  if (used_bytes_ >= from.size()) {
    size_t at = used_bytes_ - from.size();
    from = pair_->PayloadOf(message).subspan(at);
  } else {
    from = from.subspan(used_bytes_);
  }
  size_t count = std::min(from.size(), into.size());
  if (into.data() == from.data()) {
    given_away_ = true;
  } else {
    std::memcpy(into.data(), from.data(), count);
    if (message.payload_bytes >= kLargePartBytes && used_bytes_ >= message.stream_bytes) {
      copied_in_bytes_ += count;
    }
  }
  used_bytes_ += count;
  if (used_bytes_ == message.stream_bytes + message.payload_bytes) {
    std::exchange(given_away_, false) ? pair_->GiveAway() : pair_->GiveBack();
    used_bytes_ = 0;
  }
  return count;
}

bool RdmaChannel::IsBeforePayload() {
  if (!pair_->HasMessage()) return false;
  const QueuePair::Message& message = pair_->front();
  return used_bytes_ == message.stream_bytes && message.payload_bytes >= kLargePartBytes;
}

// A payload of less than half a slot would hold too much memory.
BufferRef RdmaChannel::Lying(size_t bytes) {
  if (!IsBeforePayload() || pair_->front().payload_bytes != bytes) return {};
  if (2 * bytes < pair_->own_offer().slot_bytes) return {};
  return pair_->LyingPayload();
}

// Looks once more at the end, for bytes that the other end sent before it ended. The queue pair of
// an end that leaves is gone before its socket is, so a broken one may mean no more than that.
int RdmaChannel::WhyNothing() {
  if (!pair_->status().ok()) Woken();
  if (spoke_ || pair_->status().code() == StatusCode::kProtocol) return EPROTO;
  if (ended_) {
    pair_->Drain();
    return pair_->HasMessage() ? kThrough : kEndOfStream;
  }
  return pair_->status().ok() ? EAGAIN : EPROTO;
}

// ---- sending ----

ByteChannel::Passed RdmaChannel::SendKept(std::span<const iovec> parts,
                                          std::span<const BufferRef* const> keeps) {
  if (ended_) return {0, EPIPE};
  if (!pair_->status().ok()) return {0, EPROTO};
  size_t before = pair_->unconfirmed_bytes();
  Rest rest(parts, keeps);
  while (!rest.empty() && pair_->CanSend()) AddMessage(rest);
  Passed passed{pair_->unconfirmed_bytes() - before, kThrough};
  pair_->Flush();
  if (!pair_->status().ok()) return {passed.bytes, EPROTO};
  if (!rest.empty()) passed.stop = EAGAIN;
  return passed;
}

void RdmaChannel::AddMessage(Rest& rest) {
  size_t head_bytes = 0;
  if (rest.IsAtItsHead()) head_bytes = rest.Take(pair_->NextHead());
  ByteSpan place = pair_->NextPayload();
  size_t filled = 0;
  if (rest.front().size() >= kLargePartBytes) {
    ConstByteSpan bytes = rest.front().first(std::min(rest.front().size(), pair_->slot_bytes()));
    if (rest.keep() != nullptr && pair_->CanRefer(bytes)) {
      const BufferRef& keep = *rest.keep();
      rest.Skip(bytes.size());
      return pair_->AddByReference(head_bytes, bytes, keep);
    }
    filled = rest.Take(place);
    copied_out_bytes_ += filled;
  } else {
    while (!rest.empty() && filled < place.size() && !rest.IsAtLargePart()) {
      filled += rest.Take(place.subspan(filled));
    }
  }
  pair_->Add(head_bytes, filled);
}

Status RdmaChannel::Trouble() const {
  if (!pair_->status().ok()) return pair_->status();
  return {StatusCode::kProtocol, "it sent bytes over TCP after it had changed to RDMA"};
}

}  // namespace byteps::transport
