// The stand-in for NVML as tests use it.
#pragma once

#include <dlfcn.h>

#include <string>

#include "tests/cuda_standin/nvml_standin.h"

namespace byteps::standin {

// Returns the path of the stand-in, by which the library finds it like NVML.
inline std::string NvmlPath() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&stand_in_nvml_reset), &info);
  return info.dli_fname;
}

}  // namespace byteps::standin
