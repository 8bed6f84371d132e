#include "src/transport/tcp/tcp_connector.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <asio/error.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "src/transport/address.h"
#include "src/transport/tcp/socket_options.h"
#include "src/transport/tcp/tcp_stream.h"

namespace byteps::transport {
namespace {

using asio::ip::tcp;
using Done = std::function<void(Result<std::unique_ptr<Connection>>)>;

// Tries the addresses of one name in turn. The handlers that are under way share it.
class Connector final : public std::enable_shared_from_this<Connector> {
 public:
  Connector(TcpLoop& loop, std::string own, std::string address, Duration timeout, Done done)
      : loop_(loop),
        own_(std::move(own)),
        address_(std::move(address)),
        deadline_(loop.Now() + timeout),
        done_(std::move(done)),
        socket_(loop.io()),
        timer_(loop.io()) {}

  void Begin();

 private:
  void Resolve(const HostPort& target);
  std::error_code BindToOwn();
  void OnResolved(Result<Endpoints> found);
  void TryNext();
  void OnConnected(const std::error_code& error);
  void WaitUntil(Time when);
  void OnTimeout();
  void Fail(StatusCode code, const std::string& why);
  void Complete(Result<std::unique_ptr<Connection>> result);

  TcpLoop& loop_;
  const std::string own_;
  const std::string address_;
  const Time deadline_;
  Done done_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  Endpoints endpoints_;
  size_t next_ = 0;
  // Counts the waits, because the handler of an earlier wait may already be under way when that
  // wait is cancelled.
  uint64_t wait_ = 0;
  bool resolving_ = false;
  std::string last_error_ = "the time is over";
};

void Connector::Begin() {
  Result<HostPort> parsed = ParseHostPort(address_);
  if (!parsed.ok()) return Fail(parsed.status().code(), parsed.status().message());
  std::string host = parsed->host.empty() ? "localhost" : parsed->host;
  std::error_code error;
  asio::ip::address literal = asio::ip::make_address(host, error);
  if (error) return Resolve({host, parsed->port});
  endpoints_.emplace_back(literal, parsed->port);
  TryNext();
}

void Connector::Resolve(const HostPort& target) {
  resolving_ = true;
  WaitUntil(deadline_);
  loop_.resolver().Resolve(
      target.host, target.port,
      [self = shared_from_this()](Result<Endpoints> found) { self->OnResolved(std::move(found)); });
}

void Connector::OnResolved(Result<Endpoints> found) {
  resolving_ = false;
  if (!done_) return;  // it took too long
  if (!found.ok()) {
    return Fail(found.status().code(), "the name cannot be resolved: " + found.status().message());
  }
  endpoints_ = std::move(found).value();
  TryNext();
}

void Connector::TryNext() {
  if (next_ == endpoints_.size()) return Fail(StatusCode::kUnavailable, last_error_);
  const tcp::endpoint& endpoint = endpoints_[next_++];
  std::error_code error;
  socket_.close(error);
  error = OpenSocket(socket_, endpoint.protocol());
  if (error) return OnConnected(error);
  Status applied = ApplySocketOptions(socket_.native_handle(), loop_.options());
  if (!applied.ok()) return Fail(applied.code(), applied.message());
  error = BindToOwn();
  if (error) return OnConnected(error);
  // An address that does not answer must leave time for those behind it.
  auto left = static_cast<Duration::rep>(endpoints_.size() - next_ + 1);
  WaitUntil(loop_.Now() + (deadline_ - loop_.Now()) / left);
  socket_.async_connect(endpoint,
                        [self = shared_from_this(), wait = wait_](const std::error_code& result) {
                          if (self->done_ && wait == self->wait_) self->OnConnected(result);
                        });
}

// Binds to the own address. The system chooses the port together with the target, so that as many
// connections are possible as without the bind.
std::error_code Connector::BindToOwn() {
  std::error_code error;
  if (own_.empty()) return error;
  const asio::ip::address address = asio::ip::make_address(own_, error);
  if (error) return error;
  SetPortLater(socket_.native_handle());
  socket_.bind(tcp::endpoint(address, 0), error);
  return error;
}

void Connector::OnConnected(const std::error_code& error) {
  if (error) {
    last_error_ = error.message() + (own_.empty() ? "" : " (from " + own_ + ")");
    return TryNext();
  }
  std::error_code ignored;
  // On one host the system may choose the target's port as the own port if nobody listens on it,
  // and TCP then connects the socket to itself.
  if (socket_.local_endpoint(ignored) == socket_.remote_endpoint(ignored)) {
    last_error_ = "nobody listens there";
    return TryNext();
  }
  auto stream = NewStream(loop_, std::move(socket_), ByteChannels::Side::kConnected);
  Complete(std::unique_ptr<Connection>(std::make_unique<TcpConnection>(std::move(stream))));
}

void Connector::WaitUntil(Time when) {
  timer_.expires_at(std::chrono::time_point_cast<asio::steady_timer::duration>(when));
  timer_.async_wait([self = shared_from_this(), wait = ++wait_](const std::error_code& error) {
    if (!error && self->done_ && wait == self->wait_) self->OnTimeout();
  });
}

void Connector::OnTimeout() {
  if (resolving_) {
    return Fail(StatusCode::kUnavailable, "the name was not resolved in time");
  }
  ++wait_;  // the attempt's own handler must do nothing any more
  last_error_ = "no answer in time";
  TryNext();
}

void Connector::Fail(StatusCode code, const std::string& why) {
  Complete(Status(code, "cannot connect to " + address_ + ": " + why));
}

void Connector::Complete(Result<std::unique_ptr<Connection>> result) {
  ++wait_;
  timer_.cancel();
  std::error_code ignored;
  socket_.close(ignored);
  Done done = std::exchange(done_, nullptr);
  done(std::move(result));
}

}  // namespace

void ConnectTcp(TcpLoop& loop, const std::string& own, const std::string& address, Duration timeout,
                Done done) {
  auto connector = std::make_shared<Connector>(loop, own, address, timeout, std::move(done));
  // Begins in a posted handler, so that an immediate failure is not reported from inside the call.
  asio::post(loop.io(), [connector] { connector->Begin(); });
}

}  // namespace byteps::transport
