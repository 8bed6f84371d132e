// Transport: ordered, reliable frames between two processes. Knows no tensors and no roles.
//
// A frame is a small header and a payload. Headers are copied when a frame is sent; payloads are
// borrowed, and received straight into the place that the receiver names.
//
// Threads: a Loop is one thread. Every Connection, Listener and Timer belongs to the Loop it was
// made on; their methods and all callbacks run on that Loop's thread only (before Run and after
// Run has returned: on the thread that owns the Loop). No callback is made from inside a call
// (Send, Close, Connect ...): they come from the Loop, later. Any of these objects may be destroyed
// from inside any callback, its own included. All of them are gone before their Loop is, and the
// Loops before their Transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "src/base/buffer_pool.h"
#include "src/base/status.h"
#include "src/base/time.h"
#include "src/base/types.h"

namespace byteps::transport {

// The largest header of a frame, and how a frame begins on a byte stream (docs/wire-format.md):
// u32 payload bytes, u16 header bytes, u8 kind (from 1), u8 zero.
inline constexpr size_t kHeaderBytesMax = 128;
inline constexpr size_t kFramePrefixBytes = 8;

struct Limits {
  // A peer that announces more is cut off with kProtocol. Raised by the receiver once the
  // handshake is done (Connection::SetLimits).
  size_t payload_bytes_max = 4096;
  // How much may arrive, and is dropped, after CloseAfterFlush. A peer that sends more sends
  // without end: the connection closes at once.
  size_t dropped_bytes_max = SIZE_MAX;
};

// A frame on its way out.
struct OutFrame {
  uint8_t kind = 0;
  uint32_t header_bytes = 0;
  std::byte header[kHeaderBytesMax];  // the first header_bytes count; copied by Send
  // Less than 4 GiB; borrowed until it has been written, or Close was called, or OnClosed came.
  ConstByteSpan payload;
  BufferRef keep;  // shares the payload's buffer for as long, if it has one
  // Frames that have not begun leave in order of urgency (higher first), equal ones in the order
  // of Send.
  int64_t urgency = 0;
};

// What a connection tells its user. All calls come on the loop's thread.
class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;

  // A header has arrived. Returns where the payload shall go: exactly `payload_bytes` long, valid
  // until OnFrame or OnClosed. An error closes the connection with that reason. `header` is valid
  // during the call only, and not aligned.
  virtual Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan header, size_t payload_bytes) = 0;

  // The payload named by the last OnHeader is complete (also called for an empty one).
  virtual void OnFrame() = 0;

  // The connection is gone; comes exactly once, after which nothing more comes. kOk: this side
  // called Close. kPeerLost: the other side closed, or was reset. kUnavailable: nothing that was
  // sent came through for its limit; the other side may live. kProtocol: it sent bytes that no
  // correct peer sends. kRefused: the two ends do not speak to each other, for one of them wants
  // TLS and the other does not, or they have other keys; the text says what is wrong with the other
  // ("it ..."). Other codes: what OnHeader returned.
  virtual void OnClosed(const Status& why) = 0;
};

class Connection {
 public:
  // Closes without a further callback.
  virtual ~Connection() = default;

  // Starts reading; frames go to `receiver`, which must outlive the connection or a later Start.
  // May be called again to hand the stream to another receiver (after a handshake), also from
  // inside OnFrame. Does not block. A connection that is closed before Start tells nobody; one that
  // was lost before Start tells the receiver after Start.
  virtual void Start(FrameReceiver* receiver) = 0;
  virtual void SetLimits(const Limits& limits) = 0;

  // Queues a frame; never blocks; frames leave together at the end of the loop's pass. Allowed
  // before Start. After Close or loss it does nothing. The caller bounds what is queued (credit),
  // see queued_bytes. Does not allocate once the queue has had this length before.
  // REQUIRES: header_bytes <= kHeaderBytesMax.
  virtual void Send(OutFrame frame) = 0;

  // Frames still queued that borrow from `memory` get a copy of it, and the rest of a payload that
  // is coming in to a place in it goes elsewhere (OnFrame is called all the same), in buffers of
  // `pool`, which must outlive the connection and belong to the same thread. Afterwards the memory
  // is free: no device uses it, either. A backend whose device has the memory may block until the
  // device is done, 10 ms at most; then it must take the memory from the device and close the
  // connection, with kUnavailable. Its user connects anew and repeats. Allocates: for operations
  // that fail, not for the fast path.
  virtual void Detach(ConstByteSpan memory, BufferPool& pool) = 0;

  // Drops what is queued, closes, and reports OnClosed(kOk) from the loop.
  virtual void Close() = 0;

  // As Close, once the peer has taken what is queued, or `patience` is over. What arrives in the
  // meantime is dropped (Limits::dropped_bytes_max).
  virtual void CloseAfterFlush(Duration patience) = 0;

  // Bytes given to Send that have not been written, frames' heads included.
  virtual size_t queued_bytes() const = 0;

  // "10.0.0.3:4711", for messages and logs.
  virtual std::string PeerName() const = 0;

  // The own address on this connection without the port: how the peer's network sees this host.
  virtual std::string LocalAddress() const = 0;

  // 32 bytes that only the two ends of this connection have, for proofs to hold on no other; empty
  // where nothing keeps others from listening. There once a frame has come.
  virtual ConstByteSpan ChannelBinding() const = 0;

  // Ok: the process at the other end is on this machine and belongs to the user of this process.
  // Else kRefused, with what is wrong as one says it of the other end ("it ..."). Only for a
  // connection whose other end has sent something: before that it may have no owner yet. Does not
  // block. Where only one process can have both ends, Ok.
  virtual Status CheckSameUser() const { return Status::Ok(); }

  // The least time of late that some bytes and the news that they are there took; zero: not known.
  virtual Duration RoundTrip() const { return Duration::zero(); }

  // Moves the stream to another loop of the same transport: stops here (no OnClosed; this object
  // is dead afterwards) and calls `adopt` on the target loop's thread with the same stream. What
  // has arrived already goes along; it waits there for Start. Limits go along. Users move a
  // connection once, after the handshake and before frames with data. So a backend makes what
  // cannot move (an RDMA queue pair) on the target loop. A backend casts `target` to its own kind;
  // one that wraps another passes the inner loop on.
  // REQUIRES: nothing is queued, and the call is made from OnFrame or before Start.
  virtual void MoveTo(class Loop& target,
                      std::function<void(std::unique_ptr<Connection>)> adopt) = 0;
};

class Listener {
 public:
  // Stops listening; connections made so far live on.
  virtual ~Listener() = default;
  // "host:port" with the port that was really bound.
  virtual std::string Address() const = 0;
  virtual uint16_t Port() const = 0;
};

// One thread's event loop. Run, Post and Stop may be called from any thread, the rest on the
// loop's thread or before Run.
class Loop {
 public:
  virtual ~Loop() = default;

  // Blocks until Stop; runs callbacks on the calling thread, which becomes the loop's thread.
  virtual void Run() = 0;
  // Ends Run once the work that was posted before has run; at once where there is no memory for
  // that. Never throws.
  virtual void Stop() = 0;
  // Runs `work` on the loop's thread, in order of Post, soon. Work that is left when the loop is
  // destroyed is dropped.
  virtual void Post(std::function<void()> work) = 0;
  virtual bool InLoop() const = 0;
  virtual Time Now() const = 0;
  // For what is asked or done once a frame, and frames come many at once: when those that are being
  // handed over began to be; and `work` behind the last of them. Otherwise as Now and Post.
  virtual Time EventTime() const { return Now(); }
  virtual void AfterEvent(std::function<void()> work) { Post(std::move(work)); }

  // Calls `tick` about every `period` until the returned object is gone.
  class Timer {
   public:
    virtual ~Timer() = default;
  };
  virtual std::unique_ptr<Timer> Every(Duration period, std::function<void()> tick) = 0;
  // Calls `work` once after `delay` unless the returned object is gone by then.
  virtual std::unique_ptr<Timer> After(Duration delay, std::function<void()> work) = 0;

  // Listens on `address` ("host:port", "[v6]:port", port 0 = any free one; empty host = all
  // addresses, dual stack) and gives each accepted connection to `accept`. A host name is resolved
  // at once, and may block. Errors: kInvalidArgument for an address that cannot be read,
  // kUnavailable when it cannot be had.
  virtual Result<std::unique_ptr<Listener>> Listen(
      const std::string& address, std::function<void(std::unique_ptr<Connection>)> accept) = 0;

  // Connects once to `address`; calls `done` exactly once with the connection or with kUnavailable
  // and the reason (kInvalidArgument for an address or option that cannot be), at the latest after
  // `timeout`. Names are resolved without blocking the loop.
  virtual void Connect(const std::string& address, Duration timeout,
                       std::function<void(Result<std::unique_ptr<Connection>>)> done) = 0;
  // The same from this own address (a literal, without a port); empty: the system chooses. Loops
  // whose hosts have no addresses ignore it.
  virtual void ConnectFrom(const std::string& /*own*/, const std::string& address, Duration timeout,
                           std::function<void(Result<std::unique_ptr<Connection>>)> done) {
    Connect(address, timeout, std::move(done));
  }
};

// A kind of transport: makes loops whose connections can reach each other.
class Transport {
 public:
  virtual ~Transport() = default;
  // Throws std::system_error when the system has nothing left for one (file descriptors), like
  // std::thread; std::bad_alloc as ever.
  virtual std::unique_ptr<Loop> MakeLoop() = 0;
};

}  // namespace byteps::transport
