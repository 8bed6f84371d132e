// Declares what the library calls of NCCL: types, numbers and functions. So building the library
// needs nothing of NVIDIA's. library_api_check.cc compares each line with NVIDIA's header.
//
// The names are those of NCCL's symbols.
#pragma once

#include <climits>
#include <cstddef>

struct CUstream_st;
struct ncclComm;

namespace byteps::device::nccl {

using Code = int;
using Comm = ncclComm*;
using Stream = CUstream_st*;

// Travels by value.
struct UniqueId {
  static constexpr size_t kBytes = 128;
  char bytes[kBytes];
};

// The first fields of NCCL's settings of a communicator. NCCL takes the defaults for the fields
// that a caller of this version did not know yet.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21700;
  int blocking = INT_MIN;  // INT_MIN: the default; so for the others
  int cga_cluster_size = INT_MIN;
  int ctas_min = INT_MIN;
  int ctas_max = INT_MIN;
  const char* net_name = nullptr;
};

inline constexpr Code kSuccess = 0;
inline constexpr Code kUnhandledCudaError = 1;
inline constexpr Code kSystemError = 2;
inline constexpr Code kInternalError = 3;
inline constexpr Code kInvalidArgument = 4;
inline constexpr Code kInvalidUsage = 5;
inline constexpr Code kRemoteError = 6;
inline constexpr Code kInProgress = 7;

inline constexpr int kInt8 = 0;
inline constexpr int kUint8 = 1;
inline constexpr int kInt32 = 2;
inline constexpr int kInt64 = 4;
inline constexpr int kFloat16 = 6;
inline constexpr int kFloat32 = 7;
inline constexpr int kFloat64 = 8;
inline constexpr int kBfloat16 = 9;

inline constexpr int kSum = 0;
inline constexpr int kProduct = 1;
inline constexpr int kMax = 2;
inline constexpr int kMin = 3;
inline constexpr int kAverage = 4;

// The oldest version that groups use. 21900 means 2.19.0.
inline constexpr int kVersionMin = 21900;

// FUNCTION(result, name, oldest version that has it, parameters...)
#define BYTEPS_NCCL_FUNCTIONS(FUNCTION)                                                            \
  FUNCTION(Code, ncclGetVersion, 2304, int* version)                                               \
  FUNCTION(Code, ncclGetUniqueId, 2000, UniqueId* id)                                              \
  FUNCTION(const char*, ncclGetErrorString, 2000, Code code)                                       \
  FUNCTION(const char*, ncclGetLastError, 21300, Comm comm)                                        \
  FUNCTION(Code, ncclCommInitRankConfig, 21400, Comm* comm, int size, UniqueId id, int rank,       \
           Config* config)                                                                         \
  FUNCTION(Code, ncclCommGetAsyncError, 2400, Comm comm, Code* error)                              \
  FUNCTION(Code, ncclCommFinalize, 21400, Comm comm)                                               \
  FUNCTION(Code, ncclCommDestroy, 2000, Comm comm)                                                 \
  FUNCTION(Code, ncclCommAbort, 2400, Comm comm)                                                   \
  FUNCTION(Code, ncclGroupStart, 2000)                                                             \
  FUNCTION(Code, ncclGroupEnd, 2000)                                                               \
  FUNCTION(Code, ncclReduce, 2000, const void* from, void* to, size_t count, int type, int how,    \
           int root, Comm comm, Stream stream)                                                     \
  FUNCTION(Code, ncclBroadcast, 2200, const void* from, void* to, size_t count, int type,          \
           int root, Comm comm, Stream stream)                                                     \
  FUNCTION(Code, ncclAllReduce, 2000, const void* from, void* to, size_t count, int type, int how, \
           Comm comm, Stream stream)                                                               \
  FUNCTION(Code, ncclReduceScatter, 2000, const void* from, void* to, size_t count, int type,      \
           int how, Comm comm, Stream stream)                                                      \
  FUNCTION(Code, ncclAllGather, 2000, const void* from, void* to, size_t count, int type,          \
           Comm comm, Stream stream)

// The functions, once they have been found.
struct Functions {
#define BYTEPS_NCCL_MEMBER(result, name, since, ...) result (*name)(__VA_ARGS__) = nullptr;
  BYTEPS_NCCL_FUNCTIONS(BYTEPS_NCCL_MEMBER)
#undef BYTEPS_NCCL_MEMBER
};

}  // namespace byteps::device::nccl
