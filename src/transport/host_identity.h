// Which processes share a host.
#pragma once

#include <string>

namespace byteps::transport {

// The same text for all processes that share a network stack (one machine and one network
// namespace), different for all others. Not a secret.
std::string HostIdentity();

}  // namespace byteps::transport
