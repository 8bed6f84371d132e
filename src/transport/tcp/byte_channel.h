// ByteChannel: how the bytes of one connection pass its socket: as they are (plain_channel.h),
// under TLS (tls_channel.h), or beside it, through memory that both ends share
// (src/transport/shared/ring_channel.h): the socket then only wakes.
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

  // Why a call ended before it was through: a number of errno, of which two have a meaning of their
  // own here, or one of these.
  // EAGAIN: the socket has nothing to read, or takes nothing, for now. EPROTO: see Trouble.
  static constexpr int kThrough = 0;
  static constexpr int kEndOfStream = -1;

  struct Passed {
    size_t bytes = 0;
    int stop = kThrough;
  };

  // Agrees with the other side on what is needed before bytes can pass. EAGAIN: call it again when
  // the socket is readable. Once it has failed it says so again.
  virtual int Open() = 0;

  // The socket is readable, and Receive and Send are called again where they wait for that.
  virtual void Woken() {}

  // Puts bytes of the stream into `parts`, from the front. Through: the parts are full, and there
  // may be more. REQUIRES: Open is through, here and below.
  virtual Passed Receive(std::span<const iovec> parts) = 0;

  // Takes bytes of `parts`, from the front: those are the caller's again. Through: all of them.
  // EAGAIN: call it again when the socket is writable, also if nothing is left but unsent_bytes; if
  // room_wakes_reader(), when it is readable.
  virtual Passed Send(std::span<const iovec> parts) = 0;

  // What was taken, and the socket did not take: Send, also with no parts, goes on with it.
  virtual size_t unsent_bytes() const = 0;

  // As many bytes at most may be there for Receive without the socket being readable.
  virtual size_t held_bytes_max() const = 0;

  // Whether the socket is readable when there is room again for what Send could not take. Then the
  // socket itself gives up nobody who takes nothing: its user counts the time.
  virtual bool room_wakes_reader() const { return false; }

  // As of Connection. Empty until Open is through.
  virtual ConstByteSpan binding() const = 0;

  // After EPROTO. kRefused: the two sides cannot speak to each other, with the reason as one says
  // it of the other side. kPeerLost: what came was changed on its way; kProtocol: what came is
  // nonsense; both with a text for behind the peer's name.
  virtual Status Trouble() const = 0;
};

// Makes the channels of a transport. Thread-safe.
class ByteChannels {
 public:
  enum class Side { kConnected, kAccepted };

  virtual ~ByteChannels() = default;
  // `socket` stays the caller's and outlives the channel's calls.
  virtual std::unique_ptr<ByteChannel> Make(int socket, Side side) const = 0;
};

}  // namespace byteps::transport
