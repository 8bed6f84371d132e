// Compares library_api.h with NVIDIA's header, while the compiler reads this file.
//
// The ordinary build does not compile it: the only package with NCCL's header has 300 MB. The lane
// `nccl` has this package, and compiles this file.
#include <nccl.h>

#include <climits>
#include <cstddef>

#include "src/device/nccl/library_api.h"
#include "src/device/same_call.h"

namespace byteps::device {

// NVIDIA's is longer in later versions, and each says its own size.
template <>
constexpr bool kSameStruct<nccl::Config, ncclConfig_t> =
    sizeof(nccl::Config) <= sizeof(ncclConfig_t);

namespace nccl {
namespace {

static_assert(!kSameCall<int (*)(int), int (*)(int, int)> &&
                  !kSameCall<int (*)(int), int (*)(char)> &&
                  !kSameCall<int (*)(short*), ncclResult_t (*)(ncclResult_t*)>,
              "the comparison sees what differs");

#define BYTEPS_NCCL_COMPARE(result, name, since, ...) \
  static_assert(kSameCall<decltype(Functions::name), decltype(&::name)>, #name " differs");
BYTEPS_NCCL_FUNCTIONS(BYTEPS_NCCL_COMPARE)
#undef BYTEPS_NCCL_COMPARE

static_assert(kSuccess == ncclSuccess && kUnhandledCudaError == ncclUnhandledCudaError &&
              kSystemError == ncclSystemError && kInternalError == ncclInternalError &&
              kInvalidArgument == ncclInvalidArgument && kInvalidUsage == ncclInvalidUsage &&
              kRemoteError == ncclRemoteError && kInProgress == ncclInProgress);
static_assert(kInt8 == ncclInt8 && kUint8 == ncclUint8 && kInt32 == ncclInt32 &&
              kInt64 == ncclInt64 && kFloat16 == ncclFloat16 && kFloat32 == ncclFloat32 &&
              kFloat64 == ncclFloat64 && kBfloat16 == ncclBfloat16);
static_assert(kSum == ncclSum && kProduct == ncclProd && kMax == ncclMax && kMin == ncclMin &&
              kAverage == ncclAvg);
static_assert(UniqueId::kBytes == NCCL_UNIQUE_ID_BYTES && INT_MIN == NCCL_CONFIG_UNDEF_INT);
static_assert(offsetof(Config, size) == offsetof(ncclConfig_t, size) &&
              offsetof(Config, magic) == offsetof(ncclConfig_t, magic) &&
              offsetof(Config, version) == offsetof(ncclConfig_t, version) &&
              offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking) &&
              offsetof(Config, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize) &&
              offsetof(Config, ctas_min) == offsetof(ncclConfig_t, minCTAs) &&
              offsetof(Config, ctas_max) == offsetof(ncclConfig_t, maxCTAs) &&
              offsetof(Config, net_name) == offsetof(ncclConfig_t, netName));

constexpr ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
static_assert(Config{}.magic == kTheirs.magic);

}  // namespace
}  // namespace nccl
}  // namespace byteps::device
