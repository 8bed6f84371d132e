// Bytes under TLS 1.3, with a key that both ends have instead of certificates.
//
// The key only proves who is there: each connection agrees on keys of its own (psk_dhe_ke with
// X25519), so that who learns the key later cannot read what was recorded. There is one suite,
// TLS_AES_128_GCM_SHA256, no tickets, no early data, and no certificate is ever believed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "src/base/status.h"
#include "src/transport/tcp/byte_channel.h"
#include "src/transport/tcp/tcp_transport.h"

namespace byteps::transport {

// A key seals about 2^24.5 full records safely (RFC 8446, 5.5); a sender takes the next one long
// before that.
inline constexpr uint64_t kRecordsPerKey = uint64_t{1} << 22;

// kInternal when the system's OpenSSL has not what is needed.
Result<std::unique_ptr<ByteChannels>> MakeTlsChannels(const TlsKey& key,
                                                      uint64_t records_per_key = kRecordsPerKey);

}  // namespace byteps::transport
