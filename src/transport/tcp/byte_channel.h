// ByteChannel: the way of the bytes of one connection. They pass its socket as they are
// (plain_channel.h), or under TLS (tls_channel.h), or go through memory that both ends share
// (src/transport/shared/ring_channel.h), where the socket only wakes.
//
// Belongs to the thread of its stream's loop and moves with the stream. Nothing here blocks, and
// nothing allocates once the connection is open.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/base/types.h"

namespace byteps::transport {

class TcpLoop;

// ChannelHost: the stream of a channel, for a channel that changes the way of its bytes while the
// connection is open. REQUIRES for all methods: the channel is attached.
class ChannelHost {
 public:
  virtual TcpLoop& loop() = 0;
  virtual const std::string& peer_name() const = 0;
  virtual const std::string& local_address() const = 0;
  // Queues a frame of an own kind in front of all frames that have not begun.
  virtual void SendOwn(uint8_t kind, ConstByteSpan payload) = 0;
  // Calls Receive and Send again, because the channel may go on, whatever its socket says. The
  // channel may be gone afterwards.
  virtual void Wake() = 0;
  // Ends the connection for this reason; the text follows the peer's name. The channel may be gone
  // afterwards.
  virtual void Fail(const Status& why) = 0;
  // Runs `work` later, unless the stream has left the channel's loop or is closed by then.
  virtual void Later(std::function<void()> work) = 0;

 protected:
  ~ChannelHost() = default;
};

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

  // Does the same. keeps[i] is the buffer in which parts[i] lies, or null. A channel that holds on
  // to the buffer may send the part from where it lies, also after the call.
  virtual Passed SendKept(std::span<const iovec> parts,
                          std::span<const BufferRef* const> /*keeps*/) {
    return Send(parts);
  }

  // Returns the buffer of the loop's pool in which the next `bytes` of the stream lie, from its
  // begin; null: they do not lie in one alone. If the caller takes it, the next Receive must begin
  // with these bytes as its place. Then nothing is copied, and the channel lets go of the buffer.
  virtual BufferRef Lying(size_t /*bytes*/) { return {}; }

  // Returns the bytes that Send has taken and the socket has not. The next Send, even without
  // parts, goes on with them.
  virtual size_t unsent_bytes() const = 0;

  // Returns the bytes that left and may still get lost if this end goes now. The channel wakes its
  // host when there are fewer. A socket sends on after its end, so it has none.
  virtual size_t unconfirmed_bytes() const { return 0; }

  // Returns the most bytes that Receive may have without the socket being readable.
  virtual size_t held_bytes_max() const = 0;

  // Returns whether the socket becomes readable when there is room for bytes that Send could not
  // take. The system then does not give up a peer that reads nothing, so the stream counts the
  // time.
  virtual bool room_wakes_reader() const { return false; }

  // ---- a channel that changes the way of its bytes ----

  // The stream `host` has this channel from now on. `moved`: it had the channel on another loop
  // before. `host` must outlive the time until Release.
  virtual void Attach(ChannelHost& /*host*/, bool /*moved*/) {}
  // The stream is closed, or leaves the loop. Afterwards the channel uses nothing of the loop.
  virtual void Release() {}
  // A frame of an own kind has come. Returns true if the bytes behind it come another way. An error
  // ends the connection; the text follows the peer's name.
  virtual Result<bool> OnOwnFrame(uint8_t kind, ConstByteSpan payload);
  // Returns whether the bytes of the next frame shall leave another way. The stream then calls
  // BeginSwitch when it has written all frames that had begun.
  virtual bool WantsSwitch() const { return false; }
  virtual void BeginSwitch() {}

  // The stream gives the peer up, because no bytes came through for too long.
  virtual void OnStuck() {}

  // Returns Connection::Medium.
  virtual std::string medium() const { return "tcp"; }

  // Returns Connection::ChannelBinding. Empty until Open is through.
  virtual ConstByteSpan binding() const = 0;

  // Returns the reason of EPROTO. kRefused: the two sides cannot talk to each other; the text says
  // what is wrong with the other side. kPeerLost: bytes were changed on their way. kProtocol: the
  // bytes make no sense. The last two have a text that follows the peer's name.
  virtual Status Trouble() const = 0;
};

inline Result<bool> ByteChannel::OnOwnFrame(uint8_t kind, ConstByteSpan /*payload*/) {
  return Status(StatusCode::kProtocol,
                "it sent a frame of the kind " + std::to_string(kind) + ", which nobody asked for");
}

// Makes the channels of a transport. Thread-safe.
class ByteChannels {
 public:
  enum class Side { kConnected, kAccepted };

  virtual ~ByteChannels() = default;
  // The caller keeps `socket`, which must outlive the channel's calls.
  virtual std::unique_ptr<ByteChannel> Make(int socket, Side side) const = 0;
};

}  // namespace byteps::transport
