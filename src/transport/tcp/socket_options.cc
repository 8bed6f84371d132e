#include "src/transport/tcp/socket_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>

#include "src/transport/tcp/socket_path.h"

namespace byteps::transport {
namespace {

void SetNumber(int socket, int level, int name, int value) {
  setsockopt(socket, level, name, &value, sizeof(value));
}

// Ignores errors: an option that fails leaves the kernel's default, with which everything still
// works.
void TryNumber(int socket, int level, int name, size_t value) {
  SetNumber(socket, level, name, static_cast<int>(std::min<size_t>(value, INT32_MAX)));
}

size_t CeilSeconds(Duration duration) {
  return static_cast<size_t>(std::chrono::ceil<std::chrono::seconds>(duration).count());
}

size_t CeilMilliseconds(Duration duration) {
  return static_cast<size_t>(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}

Status UseCongestionControl(int socket, const std::string& name) {
  if (SetCongestionControl(socket, name).ok()) return Status::Ok();
  std::ifstream file("/proc/sys/net/ipv4/tcp_available_congestion_control");
  std::string available;
  std::getline(file, available);
  return {StatusCode::kInvalidArgument,
          "this system has no congestion control '" + name + "' for us; it has: " + available};
}

template <typename Socket>
std::error_code OpenAny(Socket& socket, const asio::ip::tcp& protocol) {
  int fd = ::socket(protocol.family(), SOCK_STREAM | SOCK_CLOEXEC, protocol.protocol());
  if (fd < 0) return {errno, std::generic_category()};
  std::error_code error;
  socket.assign(protocol, fd, error);
  if (error) ::close(fd);
  return error;
}

}  // namespace

std::error_code OpenSocket(asio::ip::tcp::socket& socket, const asio::ip::tcp& protocol) {
  return OpenAny(socket, protocol);
}

std::error_code OpenSocket(asio::ip::tcp::acceptor& acceptor, const asio::ip::tcp& protocol) {
  return OpenAny(acceptor, protocol);
}

Status ApplySocketOptions(int socket, const TcpOptions& options) {
  TryNumber(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  if (options.send_buffer_bytes > 0) {
    TryNumber(socket, SOL_SOCKET, SO_SNDBUF, options.send_buffer_bytes);
  }
  if (options.receive_buffer_bytes > 0) {
    TryNumber(socket, SOL_SOCKET, SO_RCVBUF, options.receive_buffer_bytes);
  }
  if (options.not_sent_low_water_bytes > 0) {
    TryNumber(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, options.not_sent_low_water_bytes);
  }
  if (options.user_timeout > Duration::zero()) {
    TryNumber(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, CeilMilliseconds(options.user_timeout));
  }
  if (options.keepalive_idle > Duration::zero()) {
    TryNumber(socket, IPPROTO_TCP, TCP_KEEPIDLE, CeilSeconds(options.keepalive_idle));
    TryNumber(socket, IPPROTO_TCP, TCP_KEEPINTVL, CeilSeconds(options.keepalive_interval));
    TryNumber(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
    TryNumber(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  }
  if (options.congestion_control.empty()) return Status::Ok();
  return UseCongestionControl(socket, options.congestion_control);
}

void SetPortLater(int socket) { SetNumber(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1); }

void SetReceiveLowWater(int socket, size_t bytes) {
  TryNumber(socket, SOL_SOCKET, SO_RCVLOWAT, bytes);
}

}  // namespace byteps::transport
