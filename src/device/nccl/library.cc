#include "src/device/nccl/library.h"

#include <dlfcn.h>

#include "src/device/library.h"

namespace byteps::device::nccl {
namespace {

constexpr const char* kLibrary = "libnccl.so.2";

// Versions up to 2.8 have other codes.
std::string VersionText(int code) {
  const int thousand = code < 10000 ? 1000 : 10000;
  return std::to_string(code / thousand) + "." + std::to_string(code % thousand / 100) + "." +
         std::to_string(code % 100);
}

Status Unavailable(const std::string& text) { return {StatusCode::kUnavailable, text}; }

template <typename Function>
void FindFunction(void* library, const char* name, int since, Function& function, Status& missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr || !missing.ok()) return;
  missing = Unavailable(std::string("does not have the function ") + name +
                        ", which NCCL has since version " + VersionText(since));
}

Result<void*> Open(const std::string& path) {
  return OpenLibrary(path, kLibrary, "NCCL",
                     "; install it, for example the package nvidia-nccl-cu13, and name its file if "
                     "the loader does not find it");
}

// Returns the file that has this function of NCCL's.
template <typename Function>
std::string FileOf(Function function) {
  Dl_info info{};
  if (function == nullptr || dladdr(reinterpret_cast<void*>(function), &info) == 0) return kLibrary;
  return info.dli_fname;
}

}  // namespace

Result<Library> Library::Load(const std::string& path) {
  Result<void*> opened = Open(path);
  return opened.ok() ? Find(opened.value(), path) : opened.status();
}

Result<Library::Facts> Library::Look(const std::string& path) {
  Result<void*> opened = Open(path);
  if (!opened.ok()) return opened.status();
  Result<Library> found = Find(opened.value(), path);
  dlclose(opened.value());
  if (!found.ok()) return found.status();
  return found->facts_;
}

Result<Library> Library::Find(void* opened, const std::string& path) {
  Library library;
  Functions& found = library.functions_;
  Status missing;
#define BYTEPS_NCCL_FIND(result, name, since, ...) \
  FindFunction(opened, #name, since, found.name, missing);
  BYTEPS_NCCL_FUNCTIONS(BYTEPS_NCCL_FIND)
#undef BYTEPS_NCCL_FIND
  Facts& facts = library.facts_;
  facts.file =
      path.empty() || found.ncclGetVersion != nullptr ? FileOf(found.ncclGetVersion) : path;
  int code = 0;
  if (found.ncclGetVersion != nullptr && found.ncclGetVersion(&code) == kSuccess) {
    facts.version_code = code;
    facts.version = VersionText(code);
    if (missing.ok() && code < kVersionMin) {
      missing = Unavailable("is older than version " + VersionText(kVersionMin));
    }
  } else {
    facts.version = "unknown";
  }
  if (missing.ok()) return library;
  return Unavailable("NCCL (" + facts.file + ", version " + facts.version + ") " +
                     missing.message() + "; install a newer NCCL");
}

Status Library::Check(Code code, std::string_view what, Comm comm) const {
  if (code == kSuccess || code == kInProgress) return Status::Ok();
  const char* text = functions_.ncclGetErrorString(code);
  const char* detail = functions_.ncclGetLastError(comm);
  std::string message = std::string(what) + ": NCCL " + facts_.version + " says " +
                        (text == nullptr ? "nothing" : text) + " (" + std::to_string(code) + ")";
  if (detail != nullptr && *detail != '\0') message += std::string(", ") + detail;
  return Unavailable(message);
}

}  // namespace byteps::device::nccl
