// Error texts for operations that can never complete, the same in every place that notices it.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/status.h"

namespace byteps::protocol {

// The operation needs a rank that has left the job in order.
Status ErrorOfLeftRank(uint32_t rank);

// Nobody brings bytes to an overlay. `ranks` names the ranks that should, and that have joined.
Status ErrorOfJoinedRoot(const std::string& ranks);

}  // namespace byteps::protocol
