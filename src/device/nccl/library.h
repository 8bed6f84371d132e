// NCCL, found while the process runs. Nothing of NVIDIA's is linked.
//
// Thread-safe, as far as NCCL is: two calls for one communicator must not come at the same time.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/device/nccl/library_api.h"

namespace byteps::device::nccl {

class Library {
 public:
  // Finds the library `path`; if the path is empty, the one that the process has loaded already, or
  // the one that the system's loader finds. Needs no GPU. kUnavailable, in one sentence: there is
  // no such library, it is too old, or one of its functions is missing.
  static Result<Library> Load(const std::string& path);

  struct Facts {
    int version_code = 0;
    std::string version;
    std::string file;
  };
  // Looks what Load would find, and leaves the process without NCCL if it had none: otherwise a
  // framework that comes later would get this library in place of its own.
  static Result<Facts> Look(const std::string& path);

  const Functions& call() const { return functions_; }
  // Return "2.28.9", and 22809.
  const std::string& version() const { return facts_.version; }
  int version_code() const { return facts_.version_code; }
  // Returns the file in which the functions were found.
  const std::string& file() const { return facts_.file; }
  // Returns Ok for success and for a call that is under way, or kUnavailable with `what` and NCCL's
  // texts of the error. `comm` may be null.
  Status Check(Code code, std::string_view what, Comm comm) const;

 private:
  Library() = default;
  // Finds the functions in a library that is open.
  static Result<Library> Find(void* opened, const std::string& path);

  Functions functions_;
  Facts facts_;
};

}  // namespace byteps::device::nccl
