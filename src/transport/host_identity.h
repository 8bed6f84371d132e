// Tells which processes share a host.
#pragma once

#include <string>

namespace byteps::transport {

// Returns a text that is the same for all processes that share a network stack (one machine and one
// network namespace), and different for all others. The text is no secret.
std::string HostIdentity();

}  // namespace byteps::transport
