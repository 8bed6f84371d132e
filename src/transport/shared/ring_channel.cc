#include "src/transport/shared/ring_channel.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/local/byte_ring.h"
#include "src/local/packet_socket.h"
#include "src/local/shared_memory.h"

namespace byteps::transport {
namespace {

using Side = ByteChannels::Side;

constexpr size_t kWakeBytes = size_t{32} * 1024;
static_assert(2 * sizeof(local::RingWords) <= kRingWordsBytes && alignof(local::RingWords) == 64);

class RingChannel final : public ByteChannel {
 public:
  // Without `memory` the channel waits for it.
  RingChannel(int socket, Side side, std::optional<local::SharedMemory> memory)
      : socket_(socket), side_(side) {
    if (memory.has_value()) Use(*std::exchange(memory, std::nullopt));
  }

  int Open() override;
  void Woken() override;
  Passed Receive(std::span<const iovec> parts) override;
  Passed Send(std::span<const iovec> parts) override;
  size_t unsent_bytes() const override { return 0; }
  // The ring may hold any number of bytes, because it wakes only a reader that has said that it
  // waits.
  size_t held_bytes_max() const override { return SIZE_MAX; }
  bool room_wakes_reader() const override { return true; }
  std::string medium() const override { return "shared memory"; }
  ConstByteSpan binding() const override { return {}; }
  Status Trouble() const override;

 private:
  void Use(local::SharedMemory memory);
  Passed Write(std::span<const iovec> parts);
  void WakeOther();

  const int socket_;
  const Side side_;
  local::SharedMemory memory_;
  local::RingWriter out_;
  local::RingReader in_;
  Status offer_;        // the mistake in the offer
  bool ended_ = false;  // the other end has closed its socket
};

void RingChannel::Use(local::SharedMemory memory) {
  memory_ = std::move(memory);
  ByteSpan all = memory_.bytes();
  auto* words = reinterpret_cast<local::RingWords*>(all.data());
  ByteSpan first = all.subspan(kRingWordsBytes, kRingBytes);
  ByteSpan second = all.subspan(kRingWordsBytes + kRingBytes, kRingBytes);
  bool connected = side_ == Side::kConnected;
  out_ = connected ? local::RingWriter(&words[0], first) : local::RingWriter(&words[1], second);
  in_ = connected ? local::RingReader(&words[1], second) : local::RingReader(&words[0], first);
}

int RingChannel::Open() {
  if (!memory_.bytes().empty()) return kThrough;
  if (!offer_.ok()) return EPROTO;
  Result<local::Packet> packet = local::ReceivePacket(socket_, Time{});
  if (!packet.ok()) {
    if (packet.status().code() == StatusCode::kDeadlineExceeded) return EAGAIN;
    if (packet.status().code() == StatusCode::kPeerLost) return kEndOfStream;
    offer_ = packet.status();
    return EPROTO;
  }
  std::string_view said(reinterpret_cast<const char*>(packet->bytes.data()), packet->bytes.size());
  if (said != kRingsOffer || packet->fds.size() != 1) {
    offer_ = {StatusCode::kRefused,
              "it offers another kind of shared memory; install the same version everywhere"};
    return EPROTO;
  }
  auto memory =
      local::SharedMemory::Map(std::move(packet->fds[0]), kRingsBytes, local::Access::kReadWrite);
  if (!memory.ok()) {
    offer_ = memory.status();
    return EPROTO;
  }
  Use(std::move(memory).value());
  return kThrough;
}

// Reads one packet; if there are more, the loop calls again.
void RingChannel::Woken() {
  if (memory_.bytes().empty() || ended_) return;
  std::byte wake{};
  ssize_t count = recv(socket_, &wake, sizeof(wake), MSG_DONTWAIT | MSG_TRUNC);
  if (count == 0) ended_ = true;
  if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) ended_ = true;
}

// Ignores errors: a full socket has enough wakes in it, and a closed one shows when it is read.
void RingChannel::WakeOther() {
  std::byte wake{};
  [[maybe_unused]] ssize_t told = send(socket_, &wake, sizeof(wake), MSG_NOSIGNAL | MSG_DONTWAIT);
}

ByteChannel::Passed RingChannel::Receive(std::span<const iovec> parts) {
  Passed passed;
  for (const iovec& part : parts) {
    ByteSpan rest(static_cast<std::byte*>(part.iov_base), part.iov_len);
    while (!rest.empty()) {
      size_t count = in_.ReadSome(rest);
      if (in_.broken()) return {passed.bytes, EPROTO};
      if (count > 0) {
        rest = rest.subspan(count);
        passed.bytes += count;
        if (in_.TakeWake()) WakeOther();
      } else if (ended_) {  // after all that the other end wrote before is read
        passed.stop = kEndOfStream;
        return passed;
      } else if (in_.Wait()) {
        passed.stop = EAGAIN;
        return passed;
      }
    }
  }
  return passed;
}

ByteChannel::Passed RingChannel::Send(std::span<const iovec> parts) {
  if (ended_) return {0, EPIPE};
  Passed passed = Write(parts);
  if (passed.bytes > 0 && out_.TakeWake()) WakeOther();
  return passed;
}

// Wakes the reader for many bytes at once, or for all of them, because a frame's head alone does
// not help it.
ByteChannel::Passed RingChannel::Write(std::span<const iovec> parts) {
  Passed passed;
  size_t woken_for = 0;
  for (const iovec& part : parts) {
    ConstByteSpan rest(static_cast<const std::byte*>(part.iov_base), part.iov_len);
    while (!rest.empty()) {
      size_t count = out_.WriteSome(rest);
      if (out_.broken()) return {passed.bytes, EPROTO};
      if (count > 0) {
        rest = rest.subspan(count);
        passed.bytes += count;
        if (passed.bytes - woken_for < kWakeBytes) continue;
        woken_for = passed.bytes;
        if (out_.TakeWake()) WakeOther();
      } else if (out_.Wait()) {
        passed.stop = EAGAIN;
        return passed;
      }
    }
  }
  return passed;
}

Status RingChannel::Trouble() const {
  if (!offer_.ok()) return offer_;
  return {StatusCode::kProtocol,
          "it wrote something into the shared memory that no correct process writes"};
}

}  // namespace

Result<std::unique_ptr<ByteChannel>> OfferRings(int socket) {
  auto memory = local::SharedMemory::Create(kRingsBytes, local::Access::kReadWrite);
  if (!memory.ok()) return memory.status();
  Status sent = local::SendPacket(socket, std::as_bytes(std::span(kRingsOffer)), {memory->fd()});
  if (!sent.ok()) return sent;
  return std::unique_ptr<ByteChannel>(
      std::make_unique<RingChannel>(socket, Side::kConnected, std::move(memory).value()));
}

std::unique_ptr<ByteChannel> AwaitRings(int socket) {
  return std::make_unique<RingChannel>(socket, Side::kAccepted, std::nullopt);
}

}  // namespace byteps::transport
