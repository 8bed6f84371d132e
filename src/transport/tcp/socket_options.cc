#include "src/transport/tcp/socket_options.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace byteps::transport {
namespace {

void SetNumber(int socket, int level, int name, int value) {
  setsockopt(socket, level, name, &value, sizeof(value));
}

// An option that failed leaves the kernel's default, with which everything still works.
void TryNumber(int socket, int level, int name, size_t value) {
  SetNumber(socket, level, name, static_cast<int>(std::min<size_t>(value, INT32_MAX)));
}

size_t CeilSeconds(Duration duration) {
  return static_cast<size_t>(std::chrono::ceil<std::chrono::seconds>(duration).count());
}

size_t CeilMilliseconds(Duration duration) {
  return static_cast<size_t>(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}

Status SetCongestionControl(int socket, const std::string& name) {
  auto size = static_cast<socklen_t>(name.size());
  if (setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), size) == 0) return Status::Ok();
  std::ifstream file("/proc/sys/net/ipv4/tcp_available_congestion_control");
  std::string available;
  std::getline(file, available);
  return {StatusCode::kInvalidArgument,
          "this system has no congestion control '" + name + "' for us; it has: " + available};
}

}  // namespace

Status ApplySocketOptions(int socket, const TcpOptions& options) {
  // A program that the user starts from here must not hold our connections open.
  fcntl(socket, F_SETFD, FD_CLOEXEC);
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
  return SetCongestionControl(socket, options.congestion_control);
}

void SetReceiveLowWater(int socket, size_t bytes) {
  TryNumber(socket, SOL_SOCKET, SO_RCVLOWAT, bytes);
}

}  // namespace byteps::transport
