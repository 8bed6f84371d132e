// The bytes of one connection as messages between two queue pairs. The TCP connection beside them
// carries no bytes any more; it ends with the other process, which a queue pair does not.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "src/transport/rdma/queue_pair.h"
#include "src/transport/tcp/byte_channel.h"

namespace byteps::transport {

// REQUIRES: the two queue pairs are connected and proven, and nothing but empty messages has
// passed.
class RdmaChannel final : public ByteChannel {
 public:
  // The caller keeps `socket`, which must outlive the channel's calls.
  RdmaChannel(int socket, std::unique_ptr<QueuePair> pair)
      : socket_(socket), pair_(std::move(pair)) {}

  int Open() override { return kThrough; }
  void Woken() override;
  Passed Receive(std::span<const iovec> parts) override;
  Passed Send(std::span<const iovec> parts) override { return SendKept(parts, {}); }
  Passed SendKept(std::span<const iovec> parts, std::span<const BufferRef* const> keeps) override;
  BufferRef Lying(size_t bytes) override;
  // The device has all that Send has taken.
  size_t unsent_bytes() const override { return 0; }
  size_t unconfirmed_bytes() const override { return pair_->unconfirmed_bytes(); }
  // Messages may lie in slots while the socket is not readable.
  size_t held_bytes_max() const override { return SIZE_MAX; }
  bool room_wakes_reader() const override { return true; }
  ConstByteSpan binding() const override { return {}; }
  Status Trouble() const override;

  // Returns whether the other end has closed its socket.
  bool PeerHasEnded() {
    Woken();
    return ended_;
  }
  // Return the bytes of payloads of 4 KB and more that were copied, into messages and out of them.
  uint64_t copied_out_bytes() const { return copied_out_bytes_; }
  uint64_t copied_in_bytes() const { return copied_in_bytes_; }

  QueuePair& pair() { return *pair_; }
  const QueuePair& pair() const { return *pair_; }

 private:
  class Rest;

  size_t TakeSome(ByteSpan into);
  bool IsBeforePayload();
  int WhyNothing();
  void AddMessage(Rest& rest);

  const int socket_;
  const std::unique_ptr<QueuePair> pair_;
  size_t used_bytes_ = 0;    // of the first message
  bool given_away_ = false;  // its payload is received into itself
  uint64_t copied_out_bytes_ = 0;
  uint64_t copied_in_bytes_ = 0;
  bool ended_ = false;  // the other end has closed its socket
  bool spoke_ = false;  // it has sent something over TCP
};

}  // namespace byteps::transport
