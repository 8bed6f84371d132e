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

// A connection whose path is long, when that is known.
struct LongPath {
  std::string peer;
  Duration round_trip{};           // the least that was seen
  std::string congestion_control;  // which the connection has now
  std::string trouble;             // why that is not the one for long paths; empty: it is
};

struct TcpOptions {
  // The kernel's congestion control ("cubic", "bbr"); empty: the system's default. One that the
  // system does not have makes Listen and Connect fail.
  std::string congestion_control;
  // The one of connections whose round trip is `long_path` or more, as soon as it is known; empty:
  // they keep theirs. They also keep theirs if the system does not let this process choose it.
  std::string long_path_congestion_control;
  Duration long_path = milliseconds(5);
  // Takes each connection with a long path. Called on any loop's thread; may be empty.
  std::function<void(const LongPath&)> on_long_path;
  // The kernel's buffers of one connection; 0: the kernel tunes them.
  size_t send_buffer_bytes = 0;
  size_t receive_buffer_bytes = 0;
  // How much unsent data the kernel takes before it says "full" (TCP_NOTSENT_LOWAT); 0: off. Worth
  // setting (64 KB) only with a large credit.
  size_t not_sent_low_water_bytes = 0;
  // While a payload is being received, the reader is woken for so much at once (SO_RCVLOWAT), not
  // for every packet; 0: off.
  size_t receive_low_water_bytes = size_t{64} * 1024;
  // A connection whose data stays unacknowledged, or whose peer does not read, for this long is
  // lost (TCP_USER_TIMEOUT); 0: the system's default, many minutes.
  Duration user_timeout = seconds(10);
  // An idle connection is probed after `keepalive_idle`, then every `keepalive_interval`, and is
  // lost when `user_timeout` (or, without one, three probes) passed without an answer; 0: no
  // probes.
  Duration keepalive_idle = seconds(5);
  Duration keepalive_interval = seconds(2);
  // Takes a line for people about what the system has run out of, and no more of it until it was
  // there again. Called on any loop's thread; may be empty.
  std::function<void(const std::string&)> on_shortage;
};

// Its loops can be used from then on as described in transport.h; they copy the options.
std::unique_ptr<Transport> MakeTcpTransport(const TcpOptions& options);

// The same with all connections under TLS 1.3 (docs/decisions/0015-tls.md). Both ends have the same
// key and name it in the same way; others are refused. kInternal when this OpenSSL lacks something.
struct TlsKey {
  std::string identity;  // 1 to 128 bytes, which everybody can read
  std::array<std::byte, 32> bytes{};
  // What seals the bytes of a connection is changed after so many records of 16 KB at most. It
  // would be good for 2^24.5 (RFC 8446, 5.5).
  uint64_t records_max = uint64_t{1} << 22;
};
Result<std::unique_ptr<Transport>> MakeTlsTransport(const TcpOptions& options, const TlsKey& key);

}  // namespace byteps::transport
