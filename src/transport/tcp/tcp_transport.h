// The transport over TCP, IPv4 and IPv6.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/transport/transport.h"

namespace byteps::transport {

// Describes a connection with a long path.
struct LongPath {
  std::string peer;
  Duration round_trip{};           // the least that was measured
  std::string congestion_control;  // the connection's present one
  std::string trouble;             // why that is not the one for long paths; empty: it is
};

struct TcpOptions {
  // The kernel's congestion control ("cubic", "bbr"); empty: the system's default. If the system
  // does not have it, Listen and Connect fail.
  std::string congestion_control;
  // The congestion control of connections whose round-trip time is known to be `long_path` or more.
  // Empty, or if the system does not let this process choose it: they keep theirs.
  std::string long_path_congestion_control;
  Duration long_path = milliseconds(5);
  // The transport calls it with each connection with a long path, on any loop's thread. May be
  // empty.
  std::function<void(const LongPath&)> on_long_path;
  // The kernel's buffers of one connection; 0: the kernel tunes them.
  size_t send_buffer_bytes = 0;
  size_t receive_buffer_bytes = 0;
  // The most unsent data that the kernel takes before it says "full" (TCP_NOTSENT_LOWAT); 0: off.
  // Worth setting (64 KB) only with a large credit.
  size_t not_sent_low_water_bytes = 0;
  // While a payload is being received, the kernel wakes the reader for so many bytes at once
  // (SO_RCVLOWAT), and not for every packet; 0: off.
  size_t receive_low_water_bytes = size_t{64} * 1024;
  // A connection whose data stays unacknowledged, or whose peer does not read, for this long is
  // lost (TCP_USER_TIMEOUT); 0: the system's default, many minutes.
  Duration user_timeout = seconds(10);
  // The kernel probes an idle connection after `keepalive_idle`, then every `keepalive_interval`.
  // The connection is lost after `user_timeout` (or, without one, three probes) without an answer;
  // 0: no probes.
  Duration keepalive_idle = seconds(5);
  Duration keepalive_interval = seconds(2);
  // The transport calls it with a line for people when the system has run out of something, and not
  // again before there was some of it. Called on any loop's thread; may be empty.
  std::function<void(const std::string&)> on_shortage;
};

// Makes a transport. Its loops, which copy the options, can be used as transport.h says.
std::unique_ptr<Transport> MakeTcpTransport(const TcpOptions& options);

// MakeTlsTransport makes one with all connections under TLS 1.3 (docs/decisions/0015-tls.md). Both
// ends must have the same key and the same name for it; the transport refuses other peers.
// kInternal: this OpenSSL lacks something.
struct TlsKey {
  std::string identity;  // 1 to 128 bytes, which everybody can read
  std::array<std::byte, 32> bytes{};
  // A connection changes its key after so many records of at most 16 KB. A key would be good for
  // 2^24.5 records (RFC 8446, 5.5).
  uint64_t records_max = uint64_t{1} << 22;
};
Result<std::unique_ptr<Transport>> MakeTlsTransport(const TcpOptions& options, const TlsKey& key);

}  // namespace byteps::transport
