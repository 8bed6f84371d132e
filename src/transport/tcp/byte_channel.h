// ByteChannel: the way of the bytes of one connection. They pass its socket as they are
// (plain_channel.h), or under TLS (tls_channel.h), or go through memory that both ends share
// (src/transport/shared/ring_channel.h), where the socket only wakes.
//
// Belongs to the thread of its stream's loop and moves with the stream. Nothing here blocks, and
// nothing allocates once the connection is open.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>

#include "src/base/status.h"
#include "src/base/types.h"

namespace byteps::transport {

class ByteChannel {
 public:
  virtual ~ByteChannel() = default;

  // The reason why a call ended before it was through: one of these, or a number of errno. Two
  // numbers have a special meaning here. EAGAIN: the socket has nothing to read, or takes nothing,
  // for now. EPROTO: see Trouble.
  static constexpr int kThrough = 0;
  static constexpr int kEndOfStream = -1;

  struct Passed {
    size_t bytes = 0;
    int stop = kThrough;
  };

  // Prepares the connection with the other side, so that bytes can pass. EAGAIN: the caller calls
  // it again when the socket is readable. After a failure it fails again.
  virtual int Open() = 0;

  // Tells the channel that the socket is readable. The caller then calls Receive and Send again if
  // they wait for that.
  virtual void Woken() {}

  // Puts bytes of the stream into `parts`, from the front. kThrough: the parts are full, and there
  // may be more bytes. REQUIRES: Open is through, here and below.
  virtual Passed Receive(std::span<const iovec> parts) = 0;

  // Takes bytes of `parts`, from the front. The caller may reuse the bytes that were taken.
  // kThrough: it took all. EAGAIN: the caller calls it again when the socket is writable, even if
  // only unsent_bytes are left. If room_wakes_reader(), it waits for a readable socket instead.
  virtual Passed Send(std::span<const iovec> parts) = 0;

  // Returns the bytes that Send has taken and the socket has not. The next Send, even without
  // parts, goes on with them.
  virtual size_t unsent_bytes() const = 0;

  // Returns the most bytes that Receive may have without the socket being readable.
  virtual size_t held_bytes_max() const = 0;

  // Returns whether the socket becomes readable when there is room for bytes that Send could not
  // take. The system then does not give up a peer that reads nothing, so the stream counts the
  // time.
  virtual bool room_wakes_reader() const { return false; }

  // Returns Connection::ChannelBinding. Empty until Open is through.
  virtual ConstByteSpan binding() const = 0;

  // Returns the reason of EPROTO. kRefused: the two sides cannot talk to each other; the text says
  // what is wrong with the other side. kPeerLost: bytes were changed on their way. kProtocol: the
  // bytes make no sense. The last two have a text that follows the peer's name.
  virtual Status Trouble() const = 0;
};

// Makes the channels of a transport. Thread-safe.
class ByteChannels {
 public:
  enum class Side { kConnected, kAccepted };

  virtual ~ByteChannels() = default;
  // The caller keeps `socket`, which must outlive the channel's calls.
  virtual std::unique_ptr<ByteChannel> Make(int socket, Side side) const = 0;
};

}  // namespace byteps::transport
