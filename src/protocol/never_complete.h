// How operations end that can never complete: the same words wherever it is noticed.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/status.h"

namespace byteps::protocol {

// They need a rank that has left the job in order.
Status ErrorOfLeftRank(uint32_t rank);

// An overlay to which nobody brings bytes. `ranks` names who should, and has joined.
Status ErrorOfJoinedRoot(const std::string& ranks);

}  // namespace byteps::protocol
