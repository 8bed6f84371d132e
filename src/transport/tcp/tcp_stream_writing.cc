// The half of TcpStream that writes, and what it does for its channel.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <utility>

#include <asio/error.hpp>
#include <asio/post.hpp>

#include "src/transport/tcp/peer_owner.h"
#include "src/transport/tcp/socket_options.h"
#include "src/transport/tcp/socket_path.h"
#include "src/transport/tcp/tcp_stream.h"

namespace byteps::transport {
namespace {

// After so many bytes the other connections of the loop get their turn.
constexpr size_t kWriteBudgetBytes = size_t{1} << 20;
constexpr size_t kSendParts = 255;
// The stream looks at a path again after so many bytes, if it does not know its round-trip time.
constexpr uint64_t kLookAtPathBytes = uint64_t{64} * 1024;
// A long path loses packets. One lost probe must not end a connection, and the timeout must leave
// time for three repetitions, each twice as late as the one before.
constexpr Duration kLongPathUserTimeout = seconds(4);

}  // namespace

void TcpStream::Flush() {
  flush_pending_ = false;
  if (!Reading() || write_armed_ || write_error_ != 0) return;
  std::array<iovec, kSendParts> parts;
  std::array<const BufferRef*, kSendParts> keeps;
  for (size_t written = 0; HasToWrite();) {
    if (batch_.at_border() && WantsSwitch()) channel_->BeginSwitch();
    if (written >= kWriteBudgetBytes) {
      flush_pending_ = true;
      loop_.FlushLater(shared_from_this());
      return;
    }
    SendBatch::Gathered gathered;
    if (channel_open_) gathered = batch_.Gather(parts, keeps, kWriteBudgetBytes);
    ByteChannel::Passed passed = channel_->SendKept(std::span(parts).first(gathered.parts),
                                                    std::span(keeps).first(gathered.parts));
    batch_.Written(passed.bytes);
    written_bytes_ += passed.bytes;
    if (written_bytes_ >= look_at_path_at_) LookAtPath();
    if (passed.stop == EAGAIN) return ArmWrite();
    if (passed.stop != ByteChannel::kThrough) return OnWriteFailed(passed.stop);
    written += passed.bytes;
  }
  if (channel_->unconfirmed_bytes() > 0 && channel_->room_wakes_reader()) WatchProgress();
  if (phase_ == Phase::kDraining) ShutDownOnceThrough();
}

bool TcpStream::HasToWrite() const {
  if (channel_->unsent_bytes() > 0) return true;
  return channel_open_ && (!batch_.empty() || WantsSwitch());
}

// A stream that drains does not change the way of its bytes any more.
bool TcpStream::WantsSwitch() const {
  return phase_ == Phase::kOpen && channel_open_ && channel_->WantsSwitch();
}

void TcpStream::ArmWrite() {
  write_armed_ = true;
  if (channel_->room_wakes_reader()) {
    WatchProgress();
    return ArmRead();
  }
  socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                     [self = shared_from_this()](const std::error_code& error) {
                       self->write_armed_ = false;
                       if (error != asio::error::operation_aborted) self->Flush();
                     });
}

// Tries to write again, because there may be room that the channel has not reported yet.
void TcpStream::WriteAgain() {
  if (!write_armed_ || !channel_->room_wakes_reader()) return;
  write_armed_ = false;
  Flush();
}

void TcpStream::WatchProgress() {
  Duration limit = loop_.options().user_timeout;
  if (watching_progress_ || limit == Duration::zero()) return;
  watching_progress_ = true;
  passed_at_last_look_ = written_bytes_ - channel_->unconfirmed_bytes();
  progress_.expires_after(std::chrono::ceil<asio::steady_timer::duration>(limit));
  progress_.async_wait([self = shared_from_this()](const std::error_code& error) {
    self->watching_progress_ = false;
    if (error || !self->Reading()) return;
    const size_t unconfirmed = self->channel_->unconfirmed_bytes();
    if (!self->write_armed_ && unconfirmed == 0) return;
    if (self->written_bytes_ - unconfirmed == self->passed_at_last_look_) {
      self->channel_->OnStuck();
      return self->OnWriteFailed(ETIMEDOUT);
    }
    self->WatchProgress();
  });
}

// Asks for the round-trip time until it is known. Mostly it is known when the connection is made.
void TcpStream::LookAtPath() {
  if (written_bytes_ < look_at_path_at_) return;
  const TcpOptions& options = loop_.options();
  const Duration round_trip = RoundTrip();
  const bool known = round_trip > Duration::zero();
  look_at_path_at_ = known ? UINT64_MAX : written_bytes_ + kLookAtPathBytes;
  if (!known || round_trip < options.long_path) return;
  if (options.user_timeout > Duration::zero()) {
    SetUserTimeout(socket_.native_handle(), std::max(options.user_timeout, kLongPathUserTimeout));
  }
  LongPath path{peer_name_, round_trip, "", ""};
  const std::string& wanted = options.long_path_congestion_control;
  if (!wanted.empty()) {
    const Status set = SetCongestionControl(socket_.native_handle(), wanted);
    if (!set.ok()) path.trouble = set.message();
  }
  path.congestion_control = CongestionControlOf(socket_.native_handle());
  if (options.on_long_path) options.on_long_path(path);
}

Status TcpStream::CheckSameUser() { return transport::CheckSameUser(socket_.native_handle()); }

Duration TcpStream::RoundTrip() { return RoundTripOf(socket_.native_handle()); }

// Reads all bytes of the peer before it reports the loss, because the peer may have told its reason
// before it left.
void TcpStream::OnWriteFailed(int error) {
  write_error_ = error;
  batch_.Clear();
  ::shutdown(socket_.native_handle(), SHUT_RDWR);
}

// The end must not come before what was sent.
void TcpStream::ShutDownOnceThrough() {
  if (queued_bytes() > 0 || channel_->unconfirmed_bytes() > 0) return;
  ::shutdown(socket_.native_handle(), SHUT_WR);
}

// ---- for the channel ----

void TcpStream::SendOwn(uint8_t kind, ConstByteSpan payload) {
  BufferRef keep = loop_.Buffers().Take(payload.size());
  std::ranges::copy(payload, keep.data());
  OutFrame frame{.kind = kind};
  frame.payload = {keep.data(), payload.size()};
  frame.keep = std::move(keep);
  frame.urgency = INT64_MAX;
  Send(std::move(frame));
}

// A wait for the socket goes on. So does the order of bytes that came before the stream moved: the
// stream reads nothing before it has parsed them.
void TcpStream::Wake() {
  auto self = shared_from_this();
  if (channel_->room_wakes_reader()) write_armed_ = false;
  Flush();
  if (!Reading() || !channel_open_ || !unparsed_.empty()) return;
  if (receiver_ != nullptr || phase_ == Phase::kDraining) ReadAll();
}

void TcpStream::Fail(const Status& why) {
  Finish({why.code(), "lost the connection to " + peer_name_ + ": " + why.message()});
}

void TcpStream::Later(std::function<void()> work) {
  asio::post(loop_.io(), [self = shared_from_this(), work = std::move(work)] {
    if (self->Reading()) work();
  });
}

}  // namespace byteps::transport
