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

// The largest header of a frame, and the size of the prefix with which a frame begins on a byte
// stream (docs/wire-format.md): u32 payload bytes, u16 header bytes, u8 kind (from 1), u8 zero.
inline constexpr size_t kHeaderBytesMax = 128;
inline constexpr size_t kFramePrefixBytes = 8;

struct Limits {
  // The largest payload. The connection of a peer that announces more ends with kProtocol. The
  // receiver raises the limit after the handshake (Connection::SetLimits).
  size_t payload_bytes_max = 4096;
  // The most bytes that may arrive, and are dropped, after CloseAfterFlush. A peer that sends more
  // seems to send without end, so the connection closes at once.
  size_t dropped_bytes_max = SIZE_MAX;
};

// A frame on its way out.
struct OutFrame {
  uint8_t kind = 0;
  uint32_t header_bytes = 0;
  std::byte header[kHeaderBytesMax];  // only the first header_bytes; Send copies them
  // Less than 4 GiB; the connection borrows it until it is written, or Close was called, or
  // OnClosed came.
  ConstByteSpan payload;
  BufferRef keep;  // shares the payload's buffer for as long, if it has one
  // Frames that have not begun leave in order of urgency (higher first), equal ones in the order
  // of Send.
  int64_t urgency = 0;
};

// A connection calls its user by this interface. All calls come on the loop's thread.
class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;

  // A header has arrived. Returns the place for the payload, which must have exactly
  // `payload_bytes` and stay valid until OnFrame or OnClosed. An error closes the connection with
  // that reason. `header` is valid during the call only, and not aligned.
  virtual Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan header, size_t payload_bytes) = 0;

  // The payload of the last OnHeader is complete (called for an empty one, too).
  virtual void OnFrame() = 0;

  // The connection is gone. Comes exactly once, and no other call follows. kOk: this side called
  // Close. kPeerLost: the other side closed, or was reset. kUnavailable: no sent bytes came through
  // for the limit; the other side may live. kProtocol: the other side sent bytes that no correct
  // peer sends. kRefused: the two ends cannot talk to each other, because only one of them wants
  // TLS, or because their keys differ; the text says what is wrong with the other side ("it ...").
  // Other codes: OnHeader returned them.
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

  // Queues a frame. Never blocks. Frames leave together at the end of the loop's pass. Allowed
  // before Start. Does nothing after Close or loss. The caller limits the queued bytes (credit,
  // queued_bytes). Does not allocate once the queue has had this length before. REQUIRES:
  // header_bytes <= kHeaderBytesMax.
  virtual void Send(OutFrame frame) = 0;

  // Stops the use of `memory`. Queued frames that borrow from it get a copy. The rest of a payload
  // that arrives in it goes to another place (OnFrame is called all the same). The bytes go to
  // buffers of `pool`, which must outlive the connection and belong to the same thread. Afterwards
  // nothing uses the memory: a backend with a device gives it only memory of Loop::Buffers.
  // Allocates, so it is for operations that fail and not for the fast path.
  virtual void Detach(ConstByteSpan memory, BufferPool& pool) = 0;

  // Drops queued frames, closes, and reports OnClosed(kOk) from the loop.
  virtual void Close() = 0;

  // Closes once the peer has taken all queued frames, or `patience` is over. Drops bytes that
  // arrive meanwhile (Limits::dropped_bytes_max).
  virtual void CloseAfterFlush(Duration patience) = 0;

  // Returns the bytes given to Send that have not been written, including the heads of frames.
  // Bytes that a device has count as written, also if the peer's device has not confirmed them.
  virtual size_t queued_bytes() const = 0;

  // Returns "10.0.0.3:4711", for messages and logs.
  virtual std::string PeerName() const = 0;

  // Returns the own address on this connection, without the port: the address by which the peer's
  // network knows this host.
  virtual std::string LocalAddress() const = 0;

  // Returns 32 bytes that only the two ends of this connection have, so that proofs hold on no
  // other connection. Empty if nothing keeps others from listening. Valid once a frame has come.
  virtual ConstByteSpan ChannelBinding() const = 0;

  // Returns ok if the process at the other end is on this machine and belongs to the user of this
  // process, or if one process has both ends. kRefused: it does not; the text says what is wrong
  // with the other end ("it ..."). REQUIRES: the other end has sent something, because before that
  // it may have no owner yet. Does not block.
  virtual Status CheckSameUser() const { return Status::Ok(); }

  // Returns how the bytes travel now, for the log and for people: "tcp", "shared memory",
  // "rdma mlx5_0".
  virtual std::string Medium() const = 0;

  // Returns the least recent round-trip time; zero: not known.
  virtual Duration RoundTrip() const { return Duration::zero(); }

  // Moves the stream to another loop of the same transport: stops here (without OnClosed; this
  // object is dead afterwards) and calls `adopt` on the target loop's thread with the same stream.
  // Bytes that have arrived already go along and wait there for Start. Limits go along. Users move
  // a connection once, after the handshake and before frames with data. So a backend makes parts
  // that cannot move (an RDMA queue pair) on the target loop. A backend casts `target` to its own
  // kind; a backend that wraps another one passes the inner loop on. REQUIRES: no frame is queued,
  // and the call comes from OnFrame or before Start.
  virtual void MoveTo(class Loop& target,
                      std::function<void(std::unique_ptr<Connection>)> adopt) = 0;
};

class Listener {
 public:
  // Stops listening; connections that were accepted live on.
  virtual ~Listener() = default;
  // Returns "host:port" with the port that was really bound.
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
  // Ends Run once the work that was posted before has run, or at once if there is no memory for
  // that. Never throws.
  virtual void Stop() = 0;
  // Runs `work` on the loop's thread, in order of Post, soon. The loop drops work that is left when
  // it is destroyed.
  virtual void Post(std::function<void()> work) = 0;
  virtual bool InLoop() const = 0;
  virtual Time Now() const = 0;
  // These two serve code that runs once per frame, because many frames come at once. EventTime
  // returns when the loop began to hand over the present frames, and AfterEvent runs `work` behind
  // the last of them. Outside of frames they are Now and Post.
  virtual Time EventTime() const { return Now(); }
  virtual void AfterEvent(std::function<void()> work) { Post(std::move(work)); }
  // Returns the pool of everything that lives on this loop. A backend may send and receive bytes of
  // this pool without a copy.
  virtual BufferPool& Buffers() = 0;

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
  // at once, and may block. kInvalidArgument: the address cannot be read. kUnavailable: the system
  // does not give it.
  virtual Result<std::unique_ptr<Listener>> Listen(
      const std::string& address, std::function<void(std::unique_ptr<Connection>)> accept) = 0;

  // Connects once to `address`. Calls `done` exactly once, at the latest after `timeout`, with the
  // connection or an error. kUnavailable: the attempt failed; the text has the reason.
  // kInvalidArgument: the address or an option is impossible. Resolves names without blocking the
  // loop.
  virtual void Connect(const std::string& address, Duration timeout,
                       std::function<void(Result<std::unique_ptr<Connection>>)> done) = 0;
  // Connects from this own address (a literal, without a port); empty: the system chooses. Loops
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
  // Makes a loop. Throws std::system_error if the system has no file descriptors left, and
  // std::bad_alloc if there is no memory.
  virtual std::unique_ptr<Loop> MakeLoop() = 0;
};

}  // namespace byteps::transport
