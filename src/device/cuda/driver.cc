#include "src/device/cuda/driver.h"

#include <dlfcn.h>

#include "src/device/library.h"

namespace byteps::device::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Status Unavailable(const std::string& text) { return {StatusCode::kUnavailable, text}; }

template <typename Function>
void Find(void* library, const char* name, int since, Function& function, Status& missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr || !missing.ok()) return;
  missing = Unavailable(std::string("the function ") + name +
                        ", which the CUDA driver has since version " + VersionText(since));
}

// Says which function is missing, in which library of which version.
Status TooOld(const std::string& missing, const std::string& path, const Functions& functions) {
  int version = 0;
  const bool known =
      functions.cuDriverGetVersion != nullptr && functions.cuDriverGetVersion(&version) == kSuccess;
  return Unavailable("the library of the CUDA driver (" + (path.empty() ? kLibrary : path) +
                     ", version " + (known ? VersionText(version) : "unknown") +
                     ") does not have " + missing + "; install a newer driver");
}

}  // namespace

Result<Driver> Driver::Load(const std::string& path) {
  Result<void*> library = OpenLibrary(path, kLibrary, "the library of the CUDA driver",
                                      "; install NVIDIA's driver, or keep tensors in host memory");
  if (!library.ok()) return library.status();
  Driver driver;
  Functions& found = driver.functions_;
  Status missing;
#define BYTEPS_CUDA_FIND(name, since, ...) Find(library.value(), #name, since, found.name, missing);
  BYTEPS_CUDA_FUNCTIONS(BYTEPS_CUDA_FIND)
#undef BYTEPS_CUDA_FIND
  if (!missing.ok()) return TooOld(missing.message(), path, found);
  Status started = driver.Check(found.cuInit(0), "the CUDA driver does not start");
  if (!started.ok()) return started;
  int version = 0;
  Status told = driver.Check(found.cuDriverGetVersion(&version), "the version of the CUDA driver");
  if (!told.ok()) return told;
  driver.version_ = VersionText(version);
  return driver;
}

Status Driver::Check(Code code, std::string_view what) const {
  if (code == kSuccess) return Status::Ok();
  const char* name = nullptr;
  const char* text = nullptr;
  functions_.cuGetErrorName(code, &name);
  functions_.cuGetErrorString(code, &text);
  return {code == kOutOfMemory ? StatusCode::kExhausted : StatusCode::kUnavailable,
          std::string(what) + ": " + (name == nullptr ? "unknown error" : name) + " (" +
              std::to_string(code) + ")" + (text == nullptr ? "" : std::string(", ") + text)};
}

}  // namespace byteps::device::cuda
