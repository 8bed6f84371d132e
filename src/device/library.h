// Libraries of NVIDIA's, found while the process runs.
#pragma once

#include <string>

#include "src/base/status.h"

namespace byteps::device {

// Opens the library `path`; if the path is empty, the library of this name that the process has
// loaded already, or that the system's loader finds. Nobody closes it, because the library's own
// threads may run in it. kUnavailable: "`what` cannot be loaded (the loader's reason)`remedy`".
Result<void*> OpenLibrary(const std::string& path, const char* name, const std::string& what,
                          const std::string& remedy);

}  // namespace byteps::device
