// A stand-in for an NCCL that only says its version, and has all functions. In the build there are
// three: one that is older than groups need, one with the name that the system's loader knows, and
// one that a test loads and unloads.
#include "src/device/nccl/library_api.h"

namespace byteps::device::nccl {
extern "C" {

#define ncclGetVersion ncclGetVersionOfTheList
#define BYTEPS_NCCL_DEFINE(result, name, since, ...) \
  result name(__VA_ARGS__) { return {}; }
BYTEPS_NCCL_FUNCTIONS(BYTEPS_NCCL_DEFINE)
#undef BYTEPS_NCCL_DEFINE
#undef ncclGetVersion

Code ncclGetVersion(int* version) {
  *version = STAND_IN_NCCL_VERSION;
  return kSuccess;
}

}  // extern "C"
}  // namespace byteps::device::nccl
