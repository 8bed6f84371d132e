#include "src/transport/tcp/tcp_listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include <asio/error.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/steady_timer.hpp>

#include "src/transport/address.h"
#include "src/transport/tcp/socket_options.h"
#include "src/transport/tcp/tcp_stream.h"

namespace byteps::transport {
namespace {

using asio::ip::tcp;
using Accept = std::function<void(std::unique_ptr<Connection>)>;

// After so many connections the other connections of the loop get their turn.
constexpr int kAcceptedAtOnce = 16;

// The user's Listener and the accept in progress share it, because each may go first.
class AcceptLoop final : public std::enable_shared_from_this<AcceptLoop> {
 public:
  AcceptLoop(TcpLoop& loop, tcp::acceptor acceptor, Accept accept)
      : loop_(loop),
        acceptor_(std::move(acceptor)),
        retry_(loop.io()),
        accept_(std::move(accept)) {}

  void Next() {
    acceptor_.async_wait(tcp::acceptor::wait_read,
                         [self = shared_from_this()](const std::error_code& error) {
                           if (!error && !self->stopped_) self->AcceptAll();
                         });
  }

  void Stop() {
    stopped_ = true;
    std::error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
  }

  const tcp::acceptor& acceptor() const { return acceptor_; }

 private:
  void AcceptAll() {
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      int fd = ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (fd < 0 && IsShortage(errno)) return OnShortage(errno);
      if (fd < 0) continue;  // the process that connected is gone, or its network is
      short_of_ = 0;
      Hand(fd);
      if (stopped_) return;
    }
    Next();
  }

  void Hand(int fd) {
    tcp::socket socket(loop_.io());
    std::error_code error;
    socket.assign(acceptor_.local_endpoint(error).protocol(), fd, error);
    if (error) return static_cast<void>(::close(fd));
    // The listening socket took the same options, so this one takes them, too.
    [[maybe_unused]] Status applied = ApplySocketOptions(fd, loop_.options());
    auto stream = NewStream(loop_, std::move(socket), ByteChannels::Side::kAccepted);
    accept_(std::make_unique<TcpConnection>(std::move(stream)));
  }

  static bool IsShortage(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
  }

  // Accepts again later. New connections wait in the kernel's queue meanwhile.
  void OnShortage(int error) {
    const auto& report = loop_.options().on_shortage;
    if (std::exchange(short_of_, error) != error && report) {
      std::error_code ignored;
      report("cannot accept connections at " + NameOf(acceptor_.local_endpoint(ignored)) + ": " +
             std::generic_category().message(error) +
             (error == EMFILE ? " (ulimit -n is the limit of this process)" : "") +
             "; they wait until there is room");
    }
    retry_.expires_after(std::chrono::milliseconds(100));
    retry_.async_wait([self = shared_from_this()](const std::error_code&) {
      if (!self->stopped_) self->AcceptAll();
    });
  }

  TcpLoop& loop_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  const Accept accept_;
  int short_of_ = 0;  // the error that was reported
  bool stopped_ = false;
};

class TcpListener final : public Listener {
 public:
  explicit TcpListener(std::shared_ptr<AcceptLoop> accepting) : accepting_(std::move(accepting)) {
    std::error_code ignored;
    bound_ = accepting_->acceptor().local_endpoint(ignored);
  }
  ~TcpListener() override { accepting_->Stop(); }

  std::string Address() const override { return NameOf(bound_); }
  uint16_t Port() const override { return bound_.port(); }

 private:
  std::shared_ptr<AcceptLoop> accepting_;
  tcp::endpoint bound_;
};

Result<tcp::endpoint> ResolveOwn(TcpLoop& loop, const HostPort& own) {
  std::error_code error;
  asio::ip::address literal = asio::ip::make_address(own.host, error);
  if (!error) return tcp::endpoint(literal, own.port);
  tcp::resolver resolver(loop.io());
  auto results =
      resolver.resolve(own.host, std::to_string(own.port), tcp::resolver::passive, error);
  if (error || results.empty()) {
    return Status(StatusCode::kUnavailable,
                  "cannot listen on '" + own.host + "': " + error.message());
  }
  return results.begin()->endpoint();
}

std::error_code OpenAndBind(tcp::acceptor& acceptor, const tcp::endpoint& endpoint, bool dual) {
  std::error_code error = OpenSocket(acceptor, endpoint.protocol());
  if (error) return error;
  std::error_code ignored;
  acceptor.set_option(tcp::acceptor::reuse_address(true), ignored);
  if (dual) acceptor.set_option(asio::ip::v6_only(false), ignored);
  acceptor.bind(endpoint, error);
  return error;
}

}  // namespace

Result<std::unique_ptr<Listener>> ListenTcp(TcpLoop& loop, const std::string& address,
                                            Accept accept) {
  Result<HostPort> own = ParseHostPort(address);
  if (!own.ok()) return own.status();
  tcp::acceptor acceptor(loop.io());
  std::error_code error;
  if (own->host.empty()) {
    error = OpenAndBind(acceptor, tcp::endpoint(tcp::v6(), own->port), true);
    if (error == asio::error::address_family_not_supported ||
        error == std::errc::address_not_available) {
      // The host has no IPv6, so the listener falls back to IPv4.
      std::error_code ignored;
      acceptor.close(ignored);
      error = OpenAndBind(acceptor, tcp::endpoint(tcp::v4(), own->port), false);
    }
  } else {
    Result<tcp::endpoint> endpoint = ResolveOwn(loop, own.value());
    if (!endpoint.ok()) return endpoint.status();
    error = OpenAndBind(acceptor, endpoint.value(), false);
  }
  if (!error) {
    Status applied = ApplySocketOptions(acceptor.native_handle(), loop.options());
    if (!applied.ok()) return applied;
    acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (!error) acceptor.native_non_blocking(true, error);
  }
  if (error) {
    return Status(StatusCode::kUnavailable, "cannot listen on " + address + ": " + error.message());
  }
  auto accepting = std::make_shared<AcceptLoop>(loop, std::move(acceptor), std::move(accept));
  accepting->Next();
  return std::unique_ptr<Listener>(std::make_unique<TcpListener>(std::move(accepting)));
}

}  // namespace byteps::transport
