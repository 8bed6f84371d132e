#include "src/device/library.h"

#include <dlfcn.h>

namespace byteps::device {

Result<void*> OpenLibrary(const std::string& path, const char* name, const std::string& what,
                          const std::string& remedy) {
  if (path.empty()) {
    if (void* loaded = dlopen(name, RTLD_NOW | RTLD_NOLOAD); loaded != nullptr) return loaded;
  }
  const char* file = path.empty() ? name : path.c_str();
  if (void* loaded = dlopen(file, RTLD_NOW | RTLD_LOCAL); loaded != nullptr) return loaded;
  const char* why = dlerror();
  return Status(
      StatusCode::kUnavailable,
      what + " cannot be loaded (" + std::string(why == nullptr ? file : why) + ")" + remedy);
}

}  // namespace byteps::device
