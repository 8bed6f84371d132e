#include "src/transport/tcp/socket_path.h"

// These headers stand in place of the C library's, whose tcp_info ends before the least round-trip
// time.
#include <linux/inet_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <system_error>

namespace byteps::transport {
namespace {

constexpr size_t kNameBytes = 16;  // TCP_CA_NAME_MAX of the kernel

Duration FromKernel(uint32_t time_us) {
  return time_us == UINT32_MAX ? Duration::zero() : Duration(microseconds(time_us));
}

}  // namespace

Duration RoundTripOf(int socket) {
  tcp_cc_info own{};
  socklen_t bytes = sizeof(own);
  // Other congestion controls return another length, or nothing.
  if (getsockopt(socket, IPPROTO_TCP, TCP_CC_INFO, &own, &bytes) == 0 &&
      bytes == sizeof(tcp_bbr_info) && FromKernel(own.bbr.bbr_min_rtt) > Duration::zero()) {
    return FromKernel(own.bbr.bbr_min_rtt);
  }
  tcp_info info{};
  bytes = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return Duration::zero();
  return FromKernel(info.tcpi_min_rtt);
}

void SetUserTimeout(int socket, Duration timeout) {
  const auto limit_ms = static_cast<unsigned>(timeout / milliseconds(1));
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof(limit_ms));
}

std::string CongestionControlOf(int socket) {
  char name[kNameBytes] = "";
  socklen_t bytes = sizeof(name) - 1;
  if (getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) != 0) return "";
  return name;
}

Status SetCongestionControl(int socket, const std::string& name) {
  const auto bytes = static_cast<socklen_t>(name.size());
  if (setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), bytes) == 0) return Status::Ok();
  return {StatusCode::kInvalidArgument, std::generic_category().message(errno)};
}

}  // namespace byteps::transport
