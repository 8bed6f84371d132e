// The GPUs of this process, through the CUDA driver.
#pragma once

#include <memory>
#include <string>

#include "src/base/status.h"
#include "src/device/device.h"

namespace byteps::device::cuda {

// Finds the driver (Driver::Load) and counts its devices. Makes no context. kUnavailable: there is
// no driver, or there is no device.
Result<std::unique_ptr<Devices>> FindDevices(const std::string& library);

}  // namespace byteps::device::cuda
