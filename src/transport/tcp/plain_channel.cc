#include "src/transport/tcp/plain_channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "src/transport/tcp/tls_record.h"

namespace byteps::transport {
namespace {

size_t TotalBytes(std::span<const iovec> parts) {
  size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

msghdr MessageOf(std::span<const iovec> parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());  // NOLINT: the kernel does not write to them
  message.msg_iovlen = parts.size();
  return message;
}

class PlainChannel final : public ByteChannel {
 public:
  explicit PlainChannel(int socket) : socket_(socket) {}

  int Open() override { return kThrough; }

  Passed Receive(std::span<const iovec> parts) override {
    msghdr message = MessageOf(parts);
    ssize_t count = recvmsg(socket_, &message, MSG_DONTWAIT);
    if (count < 0) return {0, errno == EINTR || errno == EWOULDBLOCK ? EAGAIN : errno};
    if (count == 0) return {0, kEndOfStream};
    if (begins_) {
      begins_ = false;
      if (IsTls(parts, static_cast<size_t>(count))) return {0, EPROTO};
    }
    auto bytes = static_cast<size_t>(count);
    return {bytes, bytes < TotalBytes(parts) ? EAGAIN : kThrough};
  }

  Passed Send(std::span<const iovec> parts) override {
    msghdr message = MessageOf(parts);
    ssize_t count = 0;
    do {
      count = sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (count < 0 && errno == EINTR);
    if (count < 0) return {0, errno == EWOULDBLOCK ? EAGAIN : errno};
    auto bytes = static_cast<size_t>(count);
    return {bytes, bytes < TotalBytes(parts) ? EAGAIN : kThrough};
  }

  size_t unsent_bytes() const override { return 0; }
  size_t held_bytes_max() const override { return 0; }
  ConstByteSpan binding() const override { return {}; }

  Status Trouble() const override {
    return {StatusCode::kRefused,
            "it speaks TLS and this process does not; BYTEPS_TLS must be the same everywhere"};
  }

 private:
  // Returns whether the other side begins TLS, and then answers that there is none here.
  bool IsTls(std::span<const iovec> parts, size_t bytes) {
    std::array<std::byte, kTlsBeginBytes> begin{};
    size_t collected = 0;
    for (const iovec& part : parts) {
      size_t size = std::min({part.iov_len, begin.size() - collected, bytes - collected});
      if (size > 0) std::memcpy(begin.data() + collected, part.iov_base, size);
      collected += size;
    }
    if (!BeginsAsTls(begin)) return false;
    if (begin[0] == kTlsHandshake) {
      [[maybe_unused]] ssize_t told =
          send(socket_, kTlsRefusal.data(), kTlsRefusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    return true;
  }

  const int socket_;
  bool begins_ = true;
};

class PlainChannels final : public ByteChannels {
 public:
  std::unique_ptr<ByteChannel> Make(int socket, Side) const override {
    return std::make_unique<PlainChannel>(socket);
  }
};

}  // namespace

std::unique_ptr<ByteChannels> MakePlainChannels() { return std::make_unique<PlainChannels>(); }

}  // namespace byteps::transport
