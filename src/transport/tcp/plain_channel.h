// Passes bytes as they are.
#pragma once

#include <memory>

#include "src/transport/tcp/byte_channel.h"

namespace byteps::transport {

// Makes channels without TLS. A peer that answers with TLS, or begins it, gets an answer of TLS
// that there is none here.
std::unique_ptr<ByteChannels> MakePlainChannels();

}  // namespace byteps::transport
