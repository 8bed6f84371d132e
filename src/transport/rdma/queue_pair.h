// One end of a connection over RDMA: a queue pair, the slots into which the device receives, and
// the messages on their way out. Knows messages and no frames.
//
// Belongs to the thread of its loop. Nothing blocks, except Make and Connect, for about a
// millisecond. Once all slots have been used, nothing allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/ring_queue.h"
#include "src/base/status.h"
#include "src/transport/rdma/completion_watch.h"
#include "src/transport/rdma/devices.h"
#include "src/transport/rdma/message.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/slots.h"

struct ibv_qp;

namespace byteps::transport {

class Device;
class RegisteredMemory;

// RdmaParts: the queue pairs of one loop share these objects, which must outlive them.
struct RdmaParts {
  const Device& device;
  CompletionWatch& watch;
  RegisteredMemory& memory;
  BufferPool& pool;  // with `memory` as its source
};

struct QueuePairOptions {
  uint32_t slots = 16;  // of both ends, at least
  size_t slot_bytes = size_t{32} * 1024;
  uint8_t traffic_class = 0;
  uint8_t service_level = 0;
};

class QueuePair final : private CompletionWatch::Client {
 public:
  // Makes a queue pair at the device and the port of `at`, and posts its slots. `on_event` is
  // called when messages have come or gone, or when it is broken; it may destroy the queue pair.
  // Errors: see Decline; the text says what to do.
  static Result<std::unique_ptr<QueuePair>> Make(const RdmaParts& parts, const DeviceChoice& at,
                                                 const QueuePairOptions& options,
                                                 std::function<void()> on_event);
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  // Afterwards no device uses any memory of this connection.
  ~QueuePair() override;

  // Returns the facts that the other end needs.
  const Offer& own_offer() const { return own_; }
  // Connects with the queue pair of which the other end has told. kUnavailable: the two do not fit,
  // or the device refuses it. REQUIRES: called once, before anything is sent.
  Status Connect(const Offer& peer);

  // Returns ok, or why this queue pair is of no use any more, as CompletionWatch::Client.
  const Status& status() const { return status_; }

  // Takes what has come and gone, and calls no on_event: that follows with the watch's next turn.
  void Drain() { parts_.watch.Drain(); }

  // ---- receiving ----

  // A message with bytes of the stream: first those in its head, then those in its payload.
  struct Message {
    uint32_t slot = 0;
    size_t stream_bytes = 0;  // in the head
    size_t payload_bytes = 0;
  };
  bool HasMessage() const { return !arrived_.empty(); }
  const Message& front() { return arrived_.front(); }
  ConstByteSpan HeadBytesOf(const Message& message) const;
  ConstByteSpan PayloadOf(const Message& message) const {
    return {payloads_[message.slot].data(), message.payload_bytes};
  }
  // Returns the buffer in which the payload of the first message lies, for a user who may keep it;
  // null: the pool has no other buffer for the slot that the device can reach.
  BufferRef LyingPayload();
  // The bytes of the first message are used up, so its slot serves again: with the same buffer, or,
  // if a user keeps LyingPayload, with another one.
  void GiveBack();
  void GiveAway();

  // ---- sending ----

  // Returns whether a message with bytes of the stream may be added now.
  bool CanSend() const;
  size_t slot_bytes() const { return peer_slot_bytes_; }
  // Return the places for the bytes of the next message: kHeadStreamBytesMax in its head, and
  // slot_bytes() of payload. REQUIRES: CanSend.
  ByteSpan NextHead();
  ByteSpan NextPayload();
  // Add a message whose first bytes lie in NextHead, and whose payload lies in NextPayload, or in
  // `keep`, which must not be changed before the message has come through. It leaves with Flush.
  void Add(size_t stream_bytes, size_t payload_bytes);
  void AddByReference(size_t stream_bytes, ConstByteSpan payload, BufferRef keep);
  // Returns whether the device can send these bytes where they lie.
  bool CanRefer(ConstByteSpan payload) const;
  // Adds the first message, which is empty and has the other end's nonce.
  void AddProbe() { AddEmpty(); }
  // Gives all added messages to the device. If the other end must hear what was given back and no
  // message says so, an empty one does.
  void Flush();

  // Returns the bytes of the stream in messages that have not come through.
  size_t unconfirmed_bytes() const { return unconfirmed_bytes_; }
  bool probe_confirmed() const { return confirmed_ > 0; }
  bool peer_probe_came() const { return received_ > 0; }
  // Count messages, for tests and for people.
  uint64_t copied_messages() const { return copied_; }
  uint64_t referred_messages() const { return referred_; }

 private:
  struct Posting;  // the work requests of the next Flush
  struct Sent {
    BufferRef payload;
    size_t stream_bytes = 0;  // in head and payload
    bool is_own = false;      // NextPayload gave the payload out
  };

  QueuePair(const RdmaParts& parts, const DeviceChoice& at, const QueuePairOptions& options,
            std::function<void()> on_event);
  Status Prepare();
  Status MakePair();
  BufferRef TakeReachable();
  bool PostSlot(uint32_t slot);
  void AddEmpty();
  void AddMessage(size_t stream_bytes, ConstByteSpan payload);
  std::byte* HeadAt(uint32_t place) const;
  void Break(const Status& why);

  void OnReceived(uint32_t slot, size_t bytes) override;
  void OnSent(uint32_t number) override;
  void OnBroken(const Status& why) override { Break(why); }
  void OnPolled() override;

  const RdmaParts parts_;
  const DeviceChoice at_;
  const QueuePairOptions options_;
  const std::function<void()> on_event_;
  ibv_qp* pair_ = nullptr;
  uint32_t client_ = 0;
  Offer own_;
  uint64_t peer_nonce_ = 0;
  size_t peer_slot_bytes_ = 0;
  bool connected_ = false;
  Status status_;

  // The heads of the slots, and behind them those of the messages on their way out.
  BufferRef heads_;
  uint32_t head_key_ = 0;
  std::vector<BufferRef> payloads_;  // of the slots
  ReceiveSlots receive_slots_;
  RingQueue<Message> arrived_;
  BufferRef spare_;  // replaces the next payload that is given away
  uint64_t received_ = 0;

  SendSlots send_slots_;
  std::vector<Sent> sent_;  // message n at n modulo its size
  BufferRef next_payload_;  // null: the pool has no buffer that the device can reach
  std::unique_ptr<Posting> posting_;
  uint64_t added_ = 0;
  uint64_t confirmed_ = 0;
  size_t unconfirmed_bytes_ = 0;
  uint64_t copied_ = 0;
  uint64_t referred_ = 0;
};

}  // namespace byteps::transport
