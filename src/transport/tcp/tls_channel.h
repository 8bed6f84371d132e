// Passes bytes under TLS 1.3, with a key that both ends have instead of certificates.
//
// The key only proves identity. Each connection agrees on keys of its own (psk_dhe_ke with X25519),
// so that somebody who learns the key later cannot read recorded bytes. There is one suite,
// TLS_AES_128_GCM_SHA256. There are no tickets and no early data, and no end ever believes a
// certificate.
#pragma once

#include <memory>

#include "src/base/status.h"
#include "src/transport/tcp/byte_channel.h"
#include "src/transport/tcp/tcp_transport.h"

namespace byteps::transport {

// Makes the channels. kInternal: the system's OpenSSL lacks something.
Result<std::unique_ptr<ByteChannels>> MakeTlsChannels(const TlsKey& key);

}  // namespace byteps::transport
