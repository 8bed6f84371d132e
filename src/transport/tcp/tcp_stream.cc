#include "src/transport/tcp/tcp_stream.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include <asio/error.hpp>
#include <asio/post.hpp>

#include "src/base/check.h"
#include "src/transport/address.h"
#include "src/transport/tcp/own_frames.h"
#include "src/transport/tcp/socket_options.h"

namespace byteps::transport {
namespace {

using asio::ip::tcp;

// After so many bytes the other connections of the loop get their turn.
constexpr size_t kReadBudgetBytes = size_t{1} << 20;
// Bytes of a larger read fall out of the cache before anybody looks at them.
constexpr size_t kDirectBytesMax = size_t{256} * 1024;
// For a shorter rest the system call costs more than the wake-ups that it saves.
constexpr size_t kLowWaterBytesMin = size_t{8} * 1024;
// A payload of this size is worth a system call of its own, and the next size is room for the bytes
// before the next payload.
constexpr size_t kLargePayloadBytes = size_t{16} * 1024;
constexpr size_t kHeaderReadBytes = 128;

asio::ip::address Unmapped(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return address;
}

std::string ErrorText(int error) { return std::generic_category().message(error); }

// Closes a socket that is on its way from loop to loop, unless it arrives.
class SocketInTransit {
 public:
  explicit SocketInTransit(int fd) : fd_(fd) {}
  SocketInTransit(SocketInTransit&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  SocketInTransit& operator=(SocketInTransit&&) = delete;
  ~SocketInTransit() {
    if (fd_ >= 0) close(fd_);
  }

  int fd() const { return fd_; }
  int Arrive() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace

std::string NameOf(const tcp::endpoint& endpoint) {
  return FormatHostPort(Unmapped(endpoint.address()).to_string(), endpoint.port());
}

TcpStream::TcpStream(TcpLoop& loop, int socket, State state)
    : loop_(loop),
      socket_(loop.io()),
      channel_(std::move(state.channel)),
      peer_name_(std::move(state.peer_name)),
      local_address_(std::move(state.local_address)),
      unparsed_(std::move(state.unparsed)),
      patience_(loop.io()),
      progress_(loop.io()) {
  parser_.SetLimits(state.limits);
  std::error_code error;
  socket_.assign(socket, error);
  if (error) ::close(socket);
}

// Makes a stream. The system cannot tell the name of a peer that has left meanwhile.
std::shared_ptr<TcpStream> NewStream(TcpLoop& loop, tcp::socket socket, ByteChannels::Side side) {
  TcpStream::State state;
  std::error_code error;
  tcp::endpoint peer = socket.remote_endpoint(error);
  state.peer_name = error ? "a peer that has left" : NameOf(peer);
  tcp::endpoint own = socket.local_endpoint(error);
  if (!error) state.local_address = Unmapped(own.address()).to_string();
  SocketInTransit transit(socket.release(error));
  state.channel = loop.channels().Make(transit.fd(), side);
  auto stream = std::make_shared<TcpStream>(loop, transit.Arrive(), std::move(state));
  stream->Begin();
  return stream;
}

void TcpStream::Begin(bool moved) {
  channel_->Attach(*this, moved);
  Open();
}

// Opens the channel. Without a receiver a failure waits for one, and then the channel reports it
// again.
void TcpStream::Open() {
  if (!Reading()) return;
  LookAtPath();
  int stop = channel_->Open();
  channel_open_ = stop == ByteChannel::kThrough;
  if (HasToWrite()) Flush();
  if (channel_open_) return;
  if (stop == EAGAIN) return ArmRead();
  if (receiver_ != nullptr || phase_ != Phase::kOpen) OnReadStopped(stop);
}

void TcpStream::Start(FrameReceiver* receiver) {
  bool first = receiver_ == nullptr;
  receiver_ = receiver;
  if (!first || phase_ != Phase::kOpen) return;
  if (unparsed_.empty() && channel_->held_bytes_max() == 0) {
    ArmRead();
  } else {
    asio::post(loop_.io(), [self = shared_from_this()] { self->ParseUnparsed(); });
  }
}

void TcpStream::Send(OutFrame frame) {
  if (phase_ != Phase::kOpen || write_error_ != 0) return;
  queue_.Push(std::move(frame));
  if (flush_pending_ || write_armed_) return;
  flush_pending_ = true;
  loop_.FlushLater(shared_from_this());
}

void TcpStream::Detach(ConstByteSpan memory, BufferPool& pool) {
  queue_.Detach(memory, pool);
  ByteSpan rest = parser_.direct();
  if (!Overlap(memory, rest)) return;
  diverted_ = pool.Take(rest.size());
  parser_.Divert(ByteSpan(diverted_.data(), rest.size()));
}

void TcpStream::Close() {
  if (!Reading()) return;
  Shut();
  if (receiver_ == nullptr) return;
  asio::post(loop_.io(), [self = shared_from_this()] { self->Finish(Status::Ok()); });
}

void TcpStream::CloseAfterFlush(Duration patience) {
  if (phase_ != Phase::kOpen) return;
  phase_ = Phase::kDraining;
  SetLowWater(1);
  patience_.expires_after(std::chrono::ceil<asio::steady_timer::duration>(patience));
  patience_.async_wait([self = shared_from_this()](const std::error_code& error) {
    if (!error) self->Finish(Status::Ok());
  });
  ShutDownOnceThrough();
  // A close with unread bytes would reset the connection and might destroy bytes that were sent. So
  // the stream reads on until the peer has seen the end and closes, too.
  channel_open_ ? ReadSoon() : ArmRead();
}

void TcpStream::Abandon() {
  receiver_ = nullptr;
  if (Reading()) Shut();
}

// ---- reading ----

void TcpStream::ArmRead() {
  if (read_armed_) return;
  read_armed_ = true;
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const std::error_code& error) {
                       self->read_armed_ = false;
                       // An aborted wait means that the socket was closed here, or has moved.
                       if (error != asio::error::operation_aborted) self->OnReadable();
                     });
}

// Posts a read if the channel may hold bytes, because these do not make the socket readable.
void TcpStream::ReadSoon() {
  if (channel_->held_bytes_max() == 0) return ArmRead();
  if (std::exchange(read_posted_, true)) return;
  asio::post(loop_.io(), [self = shared_from_this()] {
    self->read_posted_ = false;
    self->ReadAll();
  });
}

void TcpStream::OnReadable() {
  if (!Reading()) return;
  channel_->Woken();
  if (!channel_open_) Open();
  WriteAgain();
  if (channel_open_ && (receiver_ != nullptr || phase_ == Phase::kDraining)) ReadAll();
}

void TcpStream::ReadAll() {
  size_t total = 0;
  size_t received = 0;
  bool more = true;
  loop_.BeginEvent();
  while (Reading() && more && total < kReadBudgetBytes) {
    more = ReceiveSome(&received);
    total += received;
  }
  loop_.EndEvent();
  WriteAgain();
  if (!Reading()) return;
  UpdateLowWater();
  more ? ReadSoon() : ArmRead();
}

// Reads some bytes. Returns false if there is nothing more to read for now.
bool TcpStream::ReceiveSome(size_t* received) {
  ByteSpan direct = phase_ == Phase::kOpen ? parser_.direct() : ByteSpan();
  size_t direct_bytes = std::min(direct.size(), kDirectBytesMax);
  // Bytes behind a payload that this read cannot complete belong to that payload.
  ByteSpan buffer = direct_bytes < direct.size() ? ByteSpan() : ReadAhead();
  std::array<iovec, 2> parts = {iovec{direct.data(), direct_bytes},
                                iovec{buffer.data(), buffer.size()}};
  ByteChannel::Passed passed = channel_->Receive(parts);
  *received = passed.bytes;
  if (phase_ == Phase::kDraining && IsTooMuchDropped(passed.bytes)) {
    Finish(Status::Ok());
    return false;
  }
  if (phase_ == Phase::kOpen && passed.bytes > 0) {
    size_t straight = std::min(passed.bytes, direct_bytes);
    parser_.Received(straight);
    Parse(buffer.first(passed.bytes - straight));
    if (std::exchange(redirected_, false)) return Reading();
  }
  if (passed.stop == ByteChannel::kThrough) return true;
  if (Reading()) OnReadStopped(passed.stop);
  return false;
}

bool TcpStream::IsTooMuchDropped(size_t bytes) {
  dropped_bytes_ += bytes;
  return dropped_bytes_ > parser_.limits().dropped_bytes_max;
}

// Returns the buffer for bytes behind a payload. A read may bring many small frames. Behind a large
// payload another one is likely, and bytes of it that are read before its place is known would have
// to be copied there. So then the buffer has room only for its header.
ByteSpan TcpStream::ReadAhead() const {
  ByteSpan all = loop_.read_buffer();
  return parser_.payload_bytes() < kLargePayloadBytes ? all : all.first(kHeaderReadBytes);
}

void TcpStream::OnReadStopped(int stop) {
  if (stop == EAGAIN) return;
  if (phase_ == Phase::kDraining) return Finish(Status::Ok());
  if (stop == EPROTO || write_error_ == EPROTO) {
    Status trouble = channel_->Trouble();
    if (trouble.code() == StatusCode::kRefused) return Finish(trouble);
    return Fail(trouble);
  }
  // The failed write saw the cause; a read afterwards only tells that the connection is over.
  int cause = write_error_ != 0 ? write_error_ : (stop == ByteChannel::kEndOfStream ? 0 : stop);
  bool cut = cause == ETIMEDOUT || cause == EHOSTUNREACH || cause == ENETUNREACH;
  Finish(Status(cut ? StatusCode::kUnavailable : StatusCode::kPeerLost,
                cause == 0 ? peer_name_ + " closed the connection"
                           : "lost the connection to " + peer_name_ + ": " + ErrorText(cause)));
}

void TcpStream::ParseUnparsed() {
  if (phase_ != Phase::kOpen) return;
  std::vector<std::byte> bytes = std::exchange(unparsed_, {});
  Parse(bytes);
  if (Reading()) OnReadable();
}

void TcpStream::Parse(ConstByteSpan bytes) {
  parsing_ = true;
  bool more = false;
  while (phase_ == Phase::kOpen && !more) {
    switch (parser_.Next(bytes)) {
      case FrameParser::Event::kMore: more = true; break;
      case FrameParser::Event::kHeader: HandleHeader(bytes); break;
      case FrameParser::Event::kFrame:
        diverted_ = BufferRef();
        IsOwnKind(parser_.kind()) ? HandleOwnFrame(bytes) : receiver_->OnFrame();
        break;
      case FrameParser::Event::kBad:
        Finish(
            Status(StatusCode::kProtocol, peer_name_ + " broke the protocol: " + parser_.error()));
        break;
    }
  }
  parsing_ = false;
  if (phase_ == Phase::kMoved) FinishMove(bytes);
}

// `rest`: bytes that came behind the header. If there are none, the payload may lie in a buffer of
// the pool already. The receiver, which takes its place from the pool, then gets this buffer.
void TcpStream::HandleHeader(ConstByteSpan rest) {
  if (IsOwnKind(parser_.kind())) return HandleOwnHeader();
  size_t payload_bytes = parser_.payload_bytes();
  BufferRef lying = rest.empty() ? channel_->Lying(payload_bytes) : BufferRef();
  BufferPool& pool = loop_.Buffers();
  pool.Offer(lying, payload_bytes);
  Result<ByteSpan> place = receiver_->OnHeader(parser_.kind(), parser_.header(), payload_bytes);
  const bool taken = pool.EndOffer();
  if (phase_ != Phase::kOpen) return;
  if (!place.ok()) {
    Finish(place.status());
  } else if (taken && place.value().data() != lying.data()) {
    Finish(Status(StatusCode::kInternal,
                  "a receiver took a buffer of its payload's size and named another place"));
  } else if (place.value().size() != payload_bytes) {
    Finish(Status(StatusCode::kInternal,
                  "a receiver named a place of " + std::to_string(place.value().size()) +
                      " bytes for a payload of " + std::to_string(payload_bytes)));
  } else {
    parser_.SetPlace(place.value());
  }
}

void TcpStream::HandleOwnHeader() {
  if (!parser_.header().empty()) {
    return Fail({StatusCode::kProtocol, "it sent a frame of the kind " +
                                            std::to_string(parser_.kind()) +
                                            " with a header, which no such frame has"});
  }
  own_payload_.resize(parser_.payload_bytes());
  parser_.SetPlace(own_payload_);
}

// `rest`: bytes that came behind the frame.
void TcpStream::HandleOwnFrame(ConstByteSpan rest) {
  Result<bool> redirects = channel_->OnOwnFrame(parser_.kind(), own_payload_);
  if (phase_ != Phase::kOpen) return;
  if (!redirects.ok()) return Fail(redirects.status());
  redirected_ = redirects.value();
  if (redirected_ && !rest.empty()) {
    Fail({StatusCode::kProtocol, "it sent bytes over TCP after it had changed to RDMA"});
  }
}

// Sets the low-water mark, at most to the rest of the payload, because otherwise the last bytes
// would not wake the loop.
void TcpStream::UpdateLowWater() {
  size_t rest = phase_ == Phase::kOpen ? parser_.direct().size() : 0;
  rest -= std::min(rest, channel_->held_bytes_max());
  size_t wanted = std::min(rest, loop_.options().receive_low_water_bytes);
  if (wanted < kLowWaterBytesMin) wanted = 1;
  // A mark that is near enough stays, which saves a system call.
  bool near = low_water_ <= wanted && low_water_ >= wanted / 2 && low_water_ > 1;
  if (!near) SetLowWater(wanted);
}

void TcpStream::SetLowWater(size_t bytes) {
  if (low_water_ == bytes) return;
  low_water_ = bytes;
  SetReceiveLowWater(socket_.native_handle(), bytes);
}

// ---- the end ----

void TcpStream::Shut() {
  phase_ = Phase::kClosed;
  batch_.Clear();
  diverted_ = BufferRef();  // its pool may go before this stream
  channel_->Release();
  patience_.cancel();
  progress_.cancel();
  // The shutdown ends the connection even if a forked child still has the descriptor.
  ::shutdown(socket_.native_handle(), SHUT_RDWR);
  std::error_code ignored;
  socket_.close(ignored);
}

void TcpStream::Finish(const Status& why) {
  if (Reading()) Shut();
  FrameReceiver* receiver = std::exchange(receiver_, nullptr);
  if (receiver != nullptr) receiver->OnClosed(why);
}

void TcpStream::MoveTo(TcpLoop& target, std::function<void(std::unique_ptr<Connection>)> adopt) {
  if (phase_ != Phase::kOpen) return;
  BYTEPS_CHECK(batch_.empty());
  phase_ = Phase::kMoved;
  receiver_ = nullptr;
  move_ = {&target, std::move(adopt)};
  // Inside OnFrame the parser has bytes that it has not looked at yet, and finishes the move
  // itself.
  if (!parsing_) FinishMove(unparsed_);
}

void TcpStream::FinishMove(ConstByteSpan unparsed) {
  SetLowWater(1);
  channel_->Release();
  SocketInTransit transit(socket_.release());
  State state{std::move(channel_), parser_.limits(),
              std::vector<std::byte>(unparsed.begin(), unparsed.end()), peer_name_, local_address_};
  asio::post(
      move_.target->io(), [&target = *move_.target, adopt = std::move(move_.adopt),
                           state = std::move(state), transit = std::move(transit)]() mutable {
        auto stream = std::make_shared<TcpStream>(target, transit.Arrive(), std::move(state));
        stream->Begin(true);
        adopt(std::make_unique<TcpConnection>(std::move(stream)));
      });
}

}  // namespace byteps::transport
