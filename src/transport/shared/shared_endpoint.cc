#include "src/transport/shared/shared_endpoint.h"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <utility>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "src/base/proof.h"
#include "src/local/packet_socket.h"
#include "src/transport/address.h"
#include "src/transport/shared/ring_channel.h"
#include "src/transport/tcp/tcp_stream.h"

namespace byteps::transport {
namespace {

using Accept = std::function<void(std::unique_ptr<Connection>)>;
using Done = std::function<void(Result<std::unique_ptr<Connection>>)>;

// The same limits as for a TCP listener.
constexpr int kAcceptedAtOnce = 16;
constexpr auto kRetryAfter = std::chrono::milliseconds(100);
constexpr int kPortsTried = 100;

// Returns the name of the socket, without the mark.
std::string NameOf(const HostPort& address) {
  return address.host.substr(1) + ":" + std::to_string(address.port);
}

std::string PeerNameOf(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  bool known = getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.pid > 0;
  return (known ? "process " + std::to_string(peer.pid) : std::string("a process")) +
         " of this host (shared memory)";
}

std::unique_ptr<Connection> Open(TcpLoop& loop, local::UniqueFd socket,
                                 std::unique_ptr<ByteChannel> channel) {
  TcpStream::State state;
  state.channel = std::move(channel);
  state.peer_name = PeerNameOf(socket.get());
  state.local_address = "127.0.0.1";
  auto stream = std::make_shared<TcpStream>(loop, socket.Release(), std::move(state));
  stream->Begin();
  return std::make_unique<TcpConnection>(std::move(stream));
}

// The user's Listener and the wait in progress share it, because each may go first.
class AcceptLoop final : public std::enable_shared_from_this<AcceptLoop> {
 public:
  AcceptLoop(TcpLoop& loop, local::UniqueFd listener, Accept accept)
      : loop_(loop),
        listener_(loop.io(), listener.Release()),
        retry_(loop.io()),
        accept_(std::move(accept)) {}

  void Next() {
    listener_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [self = shared_from_this()](const std::error_code& error) {
                           if (!error && !self->stopped_) self->AcceptAll();
                         });
  }

  void Stop() {
    stopped_ = true;
    std::error_code ignored;
    listener_.close(ignored);
    retry_.cancel();
  }

 private:
  void AcceptAll() {
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      Result<local::UniqueFd> socket = local::AcceptPackets(listener_.native_handle());
      if (!socket.ok()) {
        if (socket.status().code() == StatusCode::kExhausted) return Retry();
        break;
      }
      // Drops processes of other users, which can use TCP.
      if (!local::IsOfThisUser(socket.value())) continue;
      auto channel = AwaitRings(socket->get());
      accept_(Open(loop_, std::move(socket).value(), std::move(channel)));
      if (stopped_) return;
    }
    Next();
  }

  // Accepts again later. Most likely the system has no descriptors left. New connections wait, or
  // their processes use TCP.
  void Retry() {
    retry_.expires_after(kRetryAfter);
    retry_.async_wait([self = shared_from_this()](const std::error_code&) {
      if (!self->stopped_) self->AcceptAll();
    });
  }

  TcpLoop& loop_;
  asio::posix::stream_descriptor listener_;
  asio::steady_timer retry_;
  const Accept accept_;
  bool stopped_ = false;
};

class SharedListener final : public Listener {
 public:
  SharedListener(std::shared_ptr<AcceptLoop> accepting, HostPort bound)
      : accepting_(std::move(accepting)), bound_(std::move(bound)) {}
  ~SharedListener() override { accepting_->Stop(); }

  std::string Address() const override { return bound_.host + ":" + std::to_string(bound_.port); }
  uint16_t Port() const override { return bound_.port; }

 private:
  std::shared_ptr<AcceptLoop> accepting_;
  const HostPort bound_;
};

uint16_t AnyPort() { return static_cast<uint16_t>(RandomIncarnation() % UINT16_MAX + 1); }

Result<local::UniqueFd> Bind(HostPort& own) {
  if (own.port != 0) return local::ListenPackets(NameOf(own));
  Result<local::UniqueFd> listener = Status(StatusCode::kDuplicateName, "");
  for (int i = 0; i < kPortsTried && !listener.ok(); ++i) {
    own.port = AnyPort();
    listener = local::ListenPackets(NameOf(own));
    if (listener.status().code() != StatusCode::kDuplicateName) break;
  }
  return listener;
}

Result<std::unique_ptr<Connection>> ConnectNow(TcpLoop& loop, const std::string& address) {
  Result<HostPort> target = ParseHostPort(address);
  if (!target.ok()) return target.status();
  auto unreachable = [&](const std::string& why) {
    return Status(StatusCode::kUnavailable, "cannot connect to " + address + ": " + why);
  };
  Result<local::UniqueFd> socket = local::ConnectPackets(NameOf(target.value()));
  if (!socket.ok()) return unreachable(socket.status().message());
  if (!local::IsOfThisUser(socket.value())) {
    return unreachable("the process that listens there belongs to another user");
  }
  Result<std::unique_ptr<ByteChannel>> channel = OfferRings(socket->get());
  if (!channel.ok()) return unreachable(channel.status().message());
  return Open(loop, std::move(socket).value(), std::move(channel).value());
}

}  // namespace

bool IsSharedAddress(const std::string& address) { return address.starts_with("@"); }

Result<std::unique_ptr<Listener>> ListenShared(TcpLoop& loop, const std::string& address,
                                               Accept accept) {
  Result<HostPort> own = ParseHostPort(address);
  if (!own.ok()) return own.status();
  Result<local::UniqueFd> listener = Bind(own.value());
  if (!listener.ok()) {
    return Status(StatusCode::kUnavailable,
                  "cannot listen on " + address + ": " + listener.status().message());
  }
  auto accepting =
      std::make_shared<AcceptLoop>(loop, std::move(listener).value(), std::move(accept));
  accepting->Next();
  return std::unique_ptr<Listener>(
      std::make_unique<SharedListener>(std::move(accepting), own.value()));
}

void ConnectShared(TcpLoop& loop, const std::string& address, Done done) {
  asio::post(loop.io(),
             [&loop, address, done = std::move(done)] { done(ConnectNow(loop, address)); });
}

}  // namespace byteps::transport
