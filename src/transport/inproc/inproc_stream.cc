#include "src/transport/inproc/inproc_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/check.h"

namespace byteps::transport {
namespace {

// The most bytes of frames that have begun, as a socket's buffer would hold them. More urgent
// frames cannot pass these.
constexpr size_t kInFlightBytesMax = size_t{256} * 1024;
// After so many bytes the other connections of the loop get their turn.
constexpr size_t kBudgetBytes = size_t{1} << 20;
// The most bytes that are copied under the lock at once; so long may a sender that closes have to
// wait.
constexpr size_t kCopyBytes = size_t{256} * 1024;

}  // namespace

InprocStream::InprocStream(InprocLoop& loop, std::shared_ptr<InprocPipe> pipe, size_t side,
                           std::string peer_name)
    : loop_(loop), pipe_(std::move(pipe)), side_(side), peer_name_(std::move(peer_name)) {}

InprocPair MakeInprocPair(InprocLoop& first, const std::string& second_name, InprocLoop& second,
                          const std::string& first_name) {
  auto pipe = std::make_shared<InprocPipe>();
  auto one = std::make_shared<InprocStream>(first, pipe, 0, second_name);
  auto two = std::make_shared<InprocStream>(second, pipe, 1, first_name);
  MutexLock lock(pipe->mutex);
  pipe->ends[0].mailbox = first.mailbox();
  pipe->ends[0].stream = one;
  pipe->ends[1].mailbox = second.mailbox();
  pipe->ends[1].stream = two;
  return {std::make_unique<InprocConnection>(std::move(one)),
          std::make_unique<InprocConnection>(std::move(two))};
}

void InprocStream::Start(FrameReceiver* receiver) {
  bool first = receiver_ == nullptr;
  receiver_ = receiver;
  if (first && phase_ == Phase::kOpen) Wake(side_);
}

void InprocStream::Send(OutFrame frame) {
  if (phase_ != Phase::kOpen) return;
  queue_.Push(std::move(frame));
  Wake(side_);
}

void InprocStream::Detach(ConstByteSpan memory, BufferPool& pool) {
  queue_.Detach(memory, pool);
  if (in_payload_ && Overlap(memory, place_)) {
    diverted_ = pool.Take(place_.size());
    place_ = ByteSpan(diverted_.data(), place_.size());
  }
  MutexLock lock(pipe_->mutex);
  for (Parcel& parcel : pipe_->ends[1 - side_].inbox) {
    if (!Overlap(memory, parcel.payload)) continue;
    parcel.owned.assign(parcel.payload.begin(), parcel.payload.end());
    parcel.payload = parcel.owned;
  }
}

void InprocStream::Close() {
  if (!Alive()) return;
  Shut();
  if (receiver_ == nullptr) return;
  loop_.Post([self = shared_from_this()] { self->Finish(Status::Ok()); });
}

void InprocStream::CloseAfterFlush(Duration patience) {
  if (phase_ != Phase::kOpen) return;
  phase_ = Phase::kDraining;
  patience_ = loop_.After(patience, [this] { Finish(Status::Ok()); });
  Wake(side_);
}

void InprocStream::Abandon() {
  receiver_ = nullptr;
  if (Alive()) Shut();
}

// Posts a wake-up, unless one is on its way already.
void InprocStream::Wake(size_t side) {
  std::shared_ptr<Mailbox> mailbox;
  std::weak_ptr<InprocStream> stream;
  {
    MutexLock lock(pipe_->mutex);
    InprocPipe::End& end = pipe_->ends[side];
    if (end.gone || end.wake_posted) return;
    end.wake_posted = true;
    mailbox = end.mailbox;
    stream = end.stream;
  }
  mailbox->Post([stream = std::move(stream)] {
    if (auto alive = stream.lock()) alive->Pump();
  });
}

void InprocStream::Pump() {
  if (!Alive()) return;
  {
    MutexLock lock(pipe_->mutex);
    pipe_->ends[side_].wake_posted = false;
  }
  ReleaseTaken();
  Deliver();
  if (phase_ == Phase::kDraining) {
    Discard();
    bool is_over = queue_.empty() && in_flight_.empty();
    if (is_over || dropped_bytes_ > limits_.dropped_bytes_max) Finish(Status::Ok());
  } else {
    Receive();
  }
  if (Alive()) FinishIfPeerGone();
}

void InprocStream::ReleaseTaken() {
  uint64_t taken;
  {
    MutexLock lock(pipe_->mutex);
    taken = pipe_->ends[1 - side_].taken;
  }
  for (; released_ < taken; ++released_) {
    InFlight& front = in_flight_.front();
    in_flight_bytes_ -= front.bytes;
    if (!front.owned) queue_.Release(front.ticket);
    in_flight_.pop_front();
  }
}

void InprocStream::Deliver() {
  bool delivered = false;
  while (!queue_.empty() && in_flight_bytes_ < kInFlightBytesMax) {
    FrameQueue::Ticket ticket = queue_.Take();
    const FrameQueue::Entry& entry = queue_.Get(ticket);
    in_flight_.push_back({ticket, entry.bytes(), false});
    in_flight_bytes_ += entry.bytes();
    Parcel parcel;
    parcel.kind = entry.kind;
    parcel.header_bytes = static_cast<uint32_t>(entry.header().size());
    std::copy(entry.header().begin(), entry.header().end(), parcel.header.begin());
    parcel.payload = entry.payload;
    MutexLock lock(pipe_->mutex);
    pipe_->ends[1 - side_].inbox.push_back(std::move(parcel));
    delivered = true;
  }
  if (delivered) Wake(1 - side_);
}

void InprocStream::Receive() {
  size_t total = 0;
  while (phase_ == Phase::kOpen && receiver_ != nullptr) {
    if (total >= kBudgetBytes) {
      Wake(side_);
      return;
    }
    if (!in_payload_ && !ReceiveHeader()) return;
    if (!in_payload_) continue;
    total += CopySome() + 1;
  }
}

// Tells the receiver about the next frame. Returns false if there is none.
bool InprocStream::ReceiveHeader() {
  Parcel head;
  {
    MutexLock lock(pipe_->mutex);
    InprocPipe::End& end = pipe_->ends[side_];
    if (end.inbox.empty()) return false;
    const Parcel& front = end.inbox.front();
    head.kind = front.kind;
    head.header_bytes = front.header_bytes;
    head.header = front.header;
    head.payload = front.payload;
  }
  size_t payload_bytes = head.payload.size();
  if (payload_bytes > limits_.payload_bytes_max) {
    Finish(Status(StatusCode::kProtocol,
                  peer_name_ + " broke the protocol: a frame announces a " + "payload of " +
                      std::to_string(payload_bytes) + " bytes, more than the " +
                      std::to_string(limits_.payload_bytes_max) + " allowed"));
    return true;
  }
  Result<ByteSpan> place = receiver_->OnHeader(
      head.kind, ConstByteSpan(head.header).first(head.header_bytes), payload_bytes);
  if (phase_ != Phase::kOpen) return true;
  if (!place.ok()) {
    Finish(place.status());
  } else if (place.value().size() != payload_bytes) {
    Finish(Status(StatusCode::kInternal, "a receiver named a place of the wrong size"));
  } else {
    place_ = place.value();
    copied_ = 0;
    in_payload_ = true;
  }
  return true;
}

// Copies a part of the payload and reports the frame once it is whole.
size_t InprocStream::CopySome() {
  size_t count = std::min(kCopyBytes, place_.size() - copied_);
  bool lost = false;
  bool whole = false;
  {
    MutexLock lock(pipe_->mutex);
    InprocPipe::End& end = pipe_->ends[side_];
    // A sender that has closed has taken back its memory, and the parcel with it.
    lost = end.inbox.empty();
    if (!lost) {
      const Parcel& front = end.inbox.front();
      if (count > 0) {
        std::memcpy(place_.data() + copied_, front.payload.data() + copied_, count);
      }
      copied_ += count;
      whole = copied_ == place_.size();
      if (whole) {
        end.inbox.pop_front();
        ++end.taken;
      }
    }
  }
  if (lost) {
    FinishIfPeerGone();
  } else if (whole) {
    in_payload_ = false;
    diverted_ = BufferRef();
    Wake(1 - side_);
    receiver_->OnFrame();
  }
  return count;
}

void InprocStream::Discard() {
  {
    MutexLock lock(pipe_->mutex);
    InprocPipe::End& end = pipe_->ends[side_];
    if (end.inbox.empty()) return;
    end.taken += end.inbox.size();
    for (const Parcel& parcel : end.inbox) dropped_bytes_ += parcel.payload.size();
    end.inbox.clear();
  }
  Wake(1 - side_);
}

void InprocStream::FinishIfPeerGone() {
  {
    MutexLock lock(pipe_->mutex);
    // The frames that a peer has left behind are received first. They stay until Start.
    if (!pipe_->ends[1 - side_].gone || !pipe_->ends[side_].inbox.empty()) return;
  }
  if (phase_ == Phase::kOpen && receiver_ == nullptr) return;
  Finish(phase_ == Phase::kDraining
             ? Status::Ok()
             : Status(StatusCode::kPeerLost, peer_name_ + " closed the connection"));
}

void InprocStream::Shut() {
  phase_ = Phase::kClosed;
  patience_.reset();
  {
    MutexLock lock(pipe_->mutex);
    pipe_->ends[side_].gone = true;
    pipe_->ends[side_].inbox.clear();
    // This end owns the payloads that the other end has not copied yet, and takes them back.
    std::erase_if(pipe_->ends[1 - side_].inbox,
                  [](const Parcel& parcel) { return parcel.owned.empty(); });
  }
  queue_.Clear();
  in_flight_.clear();
  diverted_ = BufferRef();
  in_payload_ = false;
  Wake(1 - side_);
}

void InprocStream::Finish(const Status& why) {
  if (Alive()) Shut();
  FrameReceiver* receiver = std::exchange(receiver_, nullptr);
  if (receiver != nullptr) receiver->OnClosed(why);
}

void InprocStream::MoveTo(InprocLoop& target,
                          std::function<void(std::unique_ptr<Connection>)> adopt) {
  if (phase_ != Phase::kOpen) return;
  BYTEPS_CHECK(queue_.empty());
  phase_ = Phase::kMoved;
  receiver_ = nullptr;
  auto moved = std::make_shared<InprocStream>(target, pipe_, side_, peer_name_);
  moved->limits_ = limits_;
  moved->released_ = released_;
  {
    MutexLock lock(pipe_->mutex);
    // Buffers belong to this thread, so parcels that the other end has not copied yet get bytes of
    // their own.
    for (Parcel& parcel : pipe_->ends[1 - side_].inbox) {
      if (parcel.owned.empty()) {
        parcel.owned.assign(parcel.payload.begin(), parcel.payload.end());
        parcel.payload = parcel.owned;
      }
    }
    InprocPipe::End& end = pipe_->ends[side_];
    end.mailbox = target.mailbox();
    end.stream = moved;
    end.wake_posted = false;
  }
  for (const InFlight& frame : in_flight_) {
    moved->in_flight_.push_back({0, frame.bytes, true});
    moved->in_flight_bytes_ += frame.bytes;
  }
  queue_.Clear();
  in_flight_.clear();
  auto holder = std::make_shared<std::unique_ptr<Connection>>(
      std::make_unique<InprocConnection>(std::move(moved)));
  target.Post([adopt = std::move(adopt), holder] { adopt(std::move(*holder)); });
}

}  // namespace byteps::transport
