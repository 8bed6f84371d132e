// Bytes as they are.
#pragma once

#include <memory>

#include "src/transport/tcp/byte_channel.h"

namespace byteps::transport {

// Who answers with TLS, or begins it, is told that there is none here, in a way that it can read.
std::unique_ptr<ByteChannels> MakePlainChannels();

}  // namespace byteps::transport
