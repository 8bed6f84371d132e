// Where a server can be reached through shared memory.
#pragma once

#include <cstdint>
#include <string>

#include "src/runtime/handshake.h"

namespace byteps::runtime {

// An address of src/transport/shared/shared_transport.h that both ends know without being told: it
// is a proof of the job, its secret and the server's `incarnation`. Only processes of the job can
// guess it if there is a secret; the handshake is the same as over TCP.
std::string SharedAddress(const JobIdentity& identity, uint64_t incarnation);

}  // namespace byteps::runtime
