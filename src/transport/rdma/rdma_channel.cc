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
  explicit Rest(std::span<const iovec> parts) : parts_(parts) { SkipEmpty(); }

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
  // Copies as many bytes of the first part as there is room for, and returns how many.
  size_t Take(ByteSpan into) {
    ConstByteSpan from = front();
    size_t count = std::min(from.size(), into.size());
    std::memcpy(into.data(), from.data(), count);
    at_ += count;
    SkipEmpty();
    return count;
  }

 private:
  void SkipEmpty() {
    while (!parts_.empty() && at_ == parts_.front().iov_len) {
      parts_ = parts_.subspan(1);
      at_ = 0;
    }
  }

  std::span<const iovec> parts_;
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
        size_t count = TakeSome(rest);
        rest = rest.subspan(count);
        passed.bytes += count;
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
  std::memcpy(into.data(), from.data(), count);
  used_bytes_ += count;
  if (used_bytes_ == message.stream_bytes + message.payload_bytes) {
    pair_->GiveBack();
    used_bytes_ = 0;
  }
  return count;
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

ByteChannel::Passed RdmaChannel::Send(std::span<const iovec> parts) {
  if (ended_) return {0, EPIPE};
  if (!pair_->status().ok()) return {0, EPROTO};
  size_t before = pair_->unconfirmed_bytes();
  Rest rest(parts);
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
    filled = rest.Take(place);
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
