// The address at which workers reach a server through shared memory.
#pragma once

#include <cstdint>
#include <string>

#include "src/runtime/handshake.h"

namespace byteps::runtime {

// Returns an address of src/transport/shared/shared_transport.h that both ends can derive. It is a
// proof of the job, its secret and the server's `incarnation`. If the job has a secret, only
// processes of the job can guess the address; the handshake is the same as over TCP.
std::string SharedAddress(const JobIdentity& identity, uint64_t incarnation);

}  // namespace byteps::runtime
