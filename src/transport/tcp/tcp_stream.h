// TcpStream: one connection over a socket, with its queue and parser; TcpConnection: the user's
// hold on it. The socket is a TCP socket, or the one that wakes the ends of shared memory
// (byte_channel.h).
//
// The two live apart because callbacks may destroy the connection whose bytes are being parsed:
// the reactor's handlers share the stream (hence shared_ptr), the user owns the connection.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "src/transport/frame_queue.h"
#include "src/transport/tcp/byte_channel.h"
#include "src/transport/tcp/frame_parser.h"
#include "src/transport/tcp/send_batch.h"
#include "src/transport/tcp/tcp_loop.h"
#include "src/transport/transport.h"

namespace byteps::transport {

// Returns "10.0.0.3:4711", even for an IPv4 address that came in through an IPv6 socket.
std::string NameOf(const asio::ip::tcp::endpoint& endpoint);

class TcpStream final : public std::enable_shared_from_this<TcpStream>, private ChannelHost {
 public:
  // The state of a stream besides its socket; it moves to another loop with all of it.
  struct State {
    std::unique_ptr<ByteChannel> channel;
    Limits limits;
    std::vector<std::byte> unparsed;  // read from the socket, not yet parsed
    std::string peer_name;
    std::string local_address;
  };

  // The stream owns `socket` from now on.
  TcpStream(TcpLoop& loop, int socket, State state);

  // Attaches and opens the channel, whether the stream is started or not. Must be called once,
  // first. `moved`: the stream comes from another loop.
  void Begin(bool moved = false);

  // Do the same as in Connection.
  void Start(FrameReceiver* receiver);
  void SetLimits(const Limits& limits) { parser_.SetLimits(limits); }
  void Send(OutFrame frame);
  void Close();
  void CloseAfterFlush(Duration patience);
  void Detach(ConstByteSpan memory, BufferPool& pool);
  size_t queued_bytes() const { return batch_.bytes() + channel_->unsent_bytes(); }
  const std::string& peer_name() const override { return peer_name_; }
  const std::string& local_address() const override { return local_address_; }
  std::string Medium() const { return channel_ == nullptr ? "" : channel_->medium(); }
  ConstByteSpan binding() const { return channel_->binding(); }
  Status CheckSameUser();
  Duration RoundTrip();
  void MoveTo(TcpLoop& target, std::function<void(std::unique_ptr<Connection>)> adopt);

  // Closes without a callback, because the user has let go.
  void Abandon();

  // Writes queued bytes, as far as the kernel takes them. The loop calls it.
  void Flush();

 private:
  enum class Phase {
    kOpen,
    kDraining,  // CloseAfterFlush: writes queued bytes, drops new ones
    kClosed,
    kMoved,
  };
  struct Move {
    TcpLoop* target;
    std::function<void(std::unique_ptr<Connection>)> adopt;
  };

  TcpLoop& loop() override { return loop_; }
  void SendOwn(uint8_t kind, ConstByteSpan payload) override;
  void Wake() override;
  void Fail(const Status& why) override;
  void Later(std::function<void()> work) override;

  bool Reading() const { return phase_ == Phase::kOpen || phase_ == Phase::kDraining; }
  void Open();
  void ArmRead();
  void ReadSoon();
  void OnReadable();
  void ReadAll();
  bool ReceiveSome(size_t* received);
  bool IsTooMuchDropped(size_t bytes);
  ByteSpan ReadAhead() const;
  void OnReadStopped(int stop);
  void ParseUnparsed();
  void Parse(ConstByteSpan bytes);
  void HandleHeader(ConstByteSpan rest);
  void HandleOwnHeader();
  void HandleOwnFrame(ConstByteSpan rest);
  void UpdateLowWater();
  void SetLowWater(size_t bytes);

  bool HasToWrite() const;
  bool WantsSwitch() const;
  void ArmWrite();
  void WriteAgain();
  void WatchProgress();
  void LookAtPath();
  void OnWriteFailed(int error);
  void ShutDownOnceThrough();

  void Shut();
  void Finish(const Status& why);
  void FinishMove(ConstByteSpan unparsed);

  TcpLoop& loop_;
  asio::posix::stream_descriptor socket_;
  std::unique_ptr<ByteChannel> channel_;
  std::string peer_name_;
  std::string local_address_;
  FrameReceiver* receiver_ = nullptr;
  Phase phase_ = Phase::kOpen;
  FrameParser parser_;
  FrameQueue queue_;
  SendBatch batch_{queue_};
  std::vector<std::byte> unparsed_;
  std::vector<std::byte> own_payload_;  // of a frame of the transport's own kinds
  BufferRef diverted_;                  // gets the rest of a payload whose place was taken back
  Move move_{};
  asio::steady_timer patience_;
  // This timer gives up a peer that reads nothing, if the socket does not (room_wakes_reader).
  asio::steady_timer progress_;
  uint64_t written_bytes_ = 0;
  uint64_t passed_at_last_look_ = 0;
  uint64_t look_at_path_at_ = 0;  // the next look is after so many written bytes
  bool watching_progress_ = false;
  size_t low_water_ = 1;  // the present SO_RCVLOWAT
  size_t dropped_bytes_ = 0;
  int write_error_ = 0;
  bool channel_open_ = false;
  bool parsing_ = false;
  bool redirected_ = false;  // the bytes that follow come another way
  bool read_armed_ = false;
  bool read_posted_ = false;
  bool write_armed_ = false;
  bool flush_pending_ = false;
};

// Makes the stream of a new connection, with a channel of the loop's kind, and begins to open it.
std::shared_ptr<TcpStream> NewStream(TcpLoop& loop, asio::ip::tcp::socket socket,
                                     ByteChannels::Side side);

class TcpConnection final : public Connection {
 public:
  explicit TcpConnection(std::shared_ptr<TcpStream> stream) : stream_(std::move(stream)) {}
  ~TcpConnection() override { stream_->Abandon(); }

  void Start(FrameReceiver* receiver) override { stream_->Start(receiver); }
  void SetLimits(const Limits& limits) override { stream_->SetLimits(limits); }
  void Send(OutFrame frame) override { stream_->Send(std::move(frame)); }
  void Detach(ConstByteSpan memory, BufferPool& pool) override { stream_->Detach(memory, pool); }
  void Close() override { stream_->Close(); }
  void CloseAfterFlush(Duration patience) override { stream_->CloseAfterFlush(patience); }
  size_t queued_bytes() const override { return stream_->queued_bytes(); }
  std::string PeerName() const override { return stream_->peer_name(); }
  std::string LocalAddress() const override { return stream_->local_address(); }
  ConstByteSpan ChannelBinding() const override { return stream_->binding(); }
  Status CheckSameUser() const override { return stream_->CheckSameUser(); }
  std::string Medium() const override { return stream_->Medium(); }
  Duration RoundTrip() const override { return stream_->RoundTrip(); }
  void MoveTo(Loop& target, std::function<void(std::unique_ptr<Connection>)> adopt) override {
    // Loops of one transport are all of one kind.
    stream_->MoveTo(static_cast<TcpLoop&>(target), std::move(adopt));
  }

 private:
  std::shared_ptr<TcpStream> stream_;
};

}  // namespace byteps::transport
