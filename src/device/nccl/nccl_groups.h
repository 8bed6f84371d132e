// Groups of GPUs in NCCL.
#pragma once

#include <memory>
#include <string>

#include "src/base/status.h"
#include "src/device/communicator.h"

namespace byteps::device::nccl {

// Finds NCCL (Library::Load). Needs no GPU. kUnavailable: there is no NCCL that is new enough.
Result<std::unique_ptr<Groups>> FindGroups(const std::string& library);

}  // namespace byteps::device::nccl
