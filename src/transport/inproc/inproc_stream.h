// InprocStream: one end of a connection inside the process; InprocConnection: the user's hold
// on it.
//
// Frames that have begun lie in the other end's inbox, a few at a time; the receiver copies their
// payloads out of the sender's memory into the place it named, and tells the sender.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/thread_annotations.h"
#include "src/transport/frame_queue.h"
#include "src/transport/inproc/inproc_loop.h"
#include "src/transport/transport.h"

namespace byteps::transport {

class InprocStream;

// A frame on its way. The payload is the sender's memory, or `owned` if the sender moved away.
struct Parcel {
  uint8_t kind = 0;
  uint32_t header_bytes = 0;
  std::array<std::byte, kHeaderBytesMax> header;
  ConstByteSpan payload;
  std::vector<std::byte> owned;
};

// The state that the two ends share. A receiver also holds the lock while it copies a payload, so
// that a sender that closes takes its memory back safely.
struct InprocPipe {
  struct End {
    std::shared_ptr<Mailbox> mailbox;  // of the loop on which the end lives
    std::weak_ptr<InprocStream> stream;
    std::deque<Parcel> inbox;  // on its way to this end
    uint64_t taken = 0;        // parcels that this end has taken out of its inbox, ever
    bool gone = false;
    bool wake_posted = false;
  };
  Mutex mutex;
  std::array<End, 2> ends BYTEPS_GUARDED_BY(mutex);
};

class InprocStream final : public std::enable_shared_from_this<InprocStream> {
 public:
  // `side` is the index of its own end.
  InprocStream(InprocLoop& loop, std::shared_ptr<InprocPipe> pipe, size_t side,
               std::string peer_name);

  // Do the same as in Connection.
  void Start(FrameReceiver* receiver);
  void SetLimits(const Limits& limits) { limits_ = limits; }
  void Send(OutFrame frame);
  void Close();
  void CloseAfterFlush(Duration patience);
  void Detach(ConstByteSpan memory, BufferPool& pool);
  size_t queued_bytes() const { return queue_.bytes(); }
  const std::string& peer_name() const { return peer_name_; }
  void MoveTo(InprocLoop& target, std::function<void(std::unique_ptr<Connection>)> adopt);

  // Closes without a callback, because the user has let go.
  void Abandon();

  // Does all work that is due. Called on the loop's thread.
  void Pump();

 private:
  enum class Phase { kOpen, kDraining, kClosed, kMoved };
  // A frame in the other end's inbox.
  struct InFlight {
    FrameQueue::Ticket ticket;
    size_t bytes;
    bool owned;  // the parcel has its own payload, there is no ticket
  };

  bool Alive() const { return phase_ == Phase::kOpen || phase_ == Phase::kDraining; }
  void Wake(size_t side);
  void ReleaseTaken();
  void Deliver();
  void Receive();
  bool ReceiveHeader();
  size_t CopySome();
  void Discard();
  void FinishIfPeerGone();
  void Shut();
  void Finish(const Status& why);

  InprocLoop& loop_;
  // Both ends share the pipe, because each may go first.
  std::shared_ptr<InprocPipe> pipe_;
  const size_t side_;
  const std::string peer_name_;
  FrameReceiver* receiver_ = nullptr;
  Limits limits_;
  size_t dropped_bytes_ = 0;
  Phase phase_ = Phase::kOpen;
  FrameQueue queue_;
  std::deque<InFlight> in_flight_;
  size_t in_flight_bytes_ = 0;
  uint64_t released_ = 0;  // how many of all sent parcels have been released
  bool in_payload_ = false;
  ByteSpan place_;
  BufferRef diverted_;  // the place, after the receiver's was taken back
  size_t copied_ = 0;
  std::unique_ptr<Loop::Timer> patience_;
};

struct InprocPair {
  std::unique_ptr<Connection> first;
  std::unique_ptr<Connection> second;
};

// Makes two connected ends, one on each loop. The names are those that each end sees of the other.
InprocPair MakeInprocPair(InprocLoop& first, const std::string& second_name, InprocLoop& second,
                          const std::string& first_name);

class InprocConnection final : public Connection {
 public:
  explicit InprocConnection(std::shared_ptr<InprocStream> stream) : stream_(std::move(stream)) {}
  ~InprocConnection() override { stream_->Abandon(); }

  void Start(FrameReceiver* receiver) override { stream_->Start(receiver); }
  void SetLimits(const Limits& limits) override { stream_->SetLimits(limits); }
  void Send(OutFrame frame) override { stream_->Send(std::move(frame)); }
  void Detach(ConstByteSpan memory, BufferPool& pool) override { stream_->Detach(memory, pool); }
  void Close() override { stream_->Close(); }
  void CloseAfterFlush(Duration patience) override { stream_->CloseAfterFlush(patience); }
  size_t queued_bytes() const override { return stream_->queued_bytes(); }
  std::string PeerName() const override { return stream_->peer_name(); }
  std::string Medium() const override { return "memory of this process"; }
  std::string LocalAddress() const override { return "inproc"; }
  ConstByteSpan ChannelBinding() const override { return {}; }
  void MoveTo(Loop& target, std::function<void(std::unique_ptr<Connection>)> adopt) override {
    // Loops of one transport are all of one kind.
    stream_->MoveTo(static_cast<InprocLoop&>(target), std::move(adopt));
  }

 private:
  // The wake-up that runs shares the stream, because a callback may destroy this object.
  std::shared_ptr<InprocStream> stream_;
};

}  // namespace byteps::transport
