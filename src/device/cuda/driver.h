// The CUDA driver, found while the process runs. Nothing of NVIDIA's is linked.
//
// Thread-safe. Every function of the driver may wait for the driver's lock, however long another
// thread holds it.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/device/cuda/driver_api.h"

namespace byteps::device::cuda {

class Driver {
 public:
  // Finds the library `path`; if the path is empty, the one that the process has loaded already, or
  // the one that the system's loader finds. Then starts the driver. kUnavailable, in one sentence:
  // there is no such library, one of its functions is missing, or it does not start.
  static Result<Driver> Load(const std::string& path);

  const Functions& call() const { return functions_; }
  // Returns "13.0".
  const std::string& version() const { return version_; }
  // Returns Ok for success, or kUnavailable with `what` and the driver's name and text of the
  // error. kExhausted: there is no memory.
  Status Check(Code code, std::string_view what) const;

 private:
  Driver() = default;
  Functions functions_;
  std::string version_;
};

}  // namespace byteps::device::cuda
