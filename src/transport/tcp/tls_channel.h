// Bytes under TLS 1.3, with a key that both ends have instead of certificates.
//
// The key only proves who is there: each connection agrees on keys of its own (psk_dhe_ke with
// X25519), so that who learns the key later cannot read what was recorded. There is one suite,
// TLS_AES_128_GCM_SHA256, no tickets, no early data, and no certificate is ever believed.
#pragma once

#include <memory>

#include "src/base/status.h"
#include "src/transport/tcp/byte_channel.h"
#include "src/transport/tcp/tcp_transport.h"

namespace byteps::transport {

// kInternal when the system's OpenSSL has not what is needed.
Result<std::unique_ptr<ByteChannels>> MakeTlsChannels(const TlsKey& key);

}  // namespace byteps::transport
