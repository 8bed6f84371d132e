// The stand-in's functions with NCCL's names. Their types are those of the library's declarations,
// which src/device/nccl/library_api_check.cc compares with NVIDIA's header.
#include <cstring>
#include <deque>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/device/nccl/library_api.h"
#include "tests/cuda_standin/world.h"
#include "tests/nccl_standin/communicators.h"

using byteps::device::nccl::Code;
using byteps::device::nccl::Comm;
using byteps::device::nccl::Config;
using byteps::device::nccl::kInProgress;
using byteps::device::nccl::kInvalidArgument;
using byteps::device::nccl::kInvalidUsage;
using byteps::device::nccl::kSuccess;
using byteps::device::nccl::kSystemError;
using byteps::device::nccl::kUnhandledCudaError;
using byteps::device::nccl::Stream;
using byteps::device::nccl::UniqueId;
using byteps::standin::AwaitAborts;
using byteps::standin::CollectiveCall;
using byteps::standin::CollectiveKind;
using byteps::standin::ElementBytes;
using byteps::standin::Forbid;
using byteps::standin::GroupMemory;
using byteps::standin::GroupName;
using byteps::standin::GroupRank;
using byteps::standin::IsPinned;
using byteps::standin::MemoryWith;
using byteps::standin::NcclCall;
using byteps::standin::NcclWorld;
using byteps::standin::OfThread;
using byteps::standin::Progress;
using byteps::standin::Remove;
using byteps::standin::TheNcclWorld;
using byteps::standin::TheWorld;
using byteps::standin::Waiting;

#define STAND_IN_CALL(comm)           \
  NcclCall this_call(__func__, comm); \
  if (this_call.error() != 0) return this_call.error()

namespace {

// The group call of a thread. Its collectives get their communicators at its end.
struct GroupCall {
  int depth = 0;
  std::vector<std::pair<Comm, Waiting>> items;
};
GroupCall& OfThisThread() {
  // tidy-allow(global): each thread has its own.
  thread_local GroupCall group;
  return group;
}

// Gives the collectives to their communicators. REQUIRES: calls of all of them are under way.
Code Enqueue(const std::vector<std::pair<Comm, Waiting>>& items) {
  for (const auto& [comm, item] : items) {
    comm->waiting.push_back(item);
    comm->was_asked = false;
  }
  return items.empty() ? kSuccess : kInProgress;
}

// Checks a collective, and keeps it for the end of the group call.
Code Collect(const char* function, const CollectiveCall& call, const void* from, void* to,
             Comm comm, Stream handle) {
  const NcclCall this_call(function, comm);
  if (this_call.error() != 0) return this_call.error();
  if (comm->error != 0) return comm->error;
  if (comm->phase != ncclComm::Phase::kReady || !comm->waiting.empty()) {
    comm->error_text = "stand-in: a call before the call before it has ended";
    return kInvalidArgument;
  }
  if (comm->stream != nullptr && comm->stream != handle) {
    Forbid("the stand-in takes one stream for each communicator");
  }
  comm->stream = handle;
  const Waiting item{call, reinterpret_cast<CUdeviceptr>(from), reinterpret_cast<CUdeviceptr>(to)};
  auto* const memory = TheWorld().memory[comm->device].get();
  const auto reaches = [memory](CUdeviceptr address) {
    return MemoryWith(address) == memory || IsPinned(reinterpret_cast<const char*>(address), 1);
  };
  const bool has_memory = call.count == 0 || (reaches(item.from) && reaches(item.to));
  if (!has_memory || ElementBytes(call.type) == 0 || call.root < 0 ||
      call.root >= comm->rank->size) {
    comm->error_text = "stand-in: no memory of the communicator's device, no type or no root";
    return kInvalidArgument;
  }
  GroupCall& group = OfThisThread();
  group.items.emplace_back(comm, item);
  return group.depth > 0 ? kSuccess : Enqueue(std::exchange(group.items, {}));
}

// Fills the place of this rank. Returns the GPU's error.
CUresult ShowRank(ncclComm& comm) {
  auto& own = comm.rank->memory->own();
  CUuuid uuid{};
  const CUresult got = cuDeviceGetUuid_v2(&uuid, comm.device);
  if (got != CUDA_SUCCESS) return got;
  std::memcpy(own.uuid, uuid.bytes, sizeof(own.uuid));
  own.size = comm.rank->size;
  {
    std::lock_guard lock(TheNcclWorld().mutex);
    own.version = TheNcclWorld().version;
  }
  own.has_joined = 1;
  comm.rank->memory->Notify();
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

Code ncclGetVersion(int* version) {
  STAND_IN_CALL(nullptr);
  std::lock_guard lock(TheNcclWorld().mutex);
  *version = TheNcclWorld().version;
  return kSuccess;
}

Code ncclGetUniqueId(UniqueId* id) {
  STAND_IN_CALL(nullptr);
  GroupName name{};
  const int descriptor = byteps::standin::MakeGroupFile(name);
  if (descriptor < 0) return kSystemError;
  *id = {};
  std::memcpy(id->bytes, &name, sizeof(name));
  std::lock_guard lock(TheNcclWorld().mutex);
  TheNcclWorld().ids[name.nonce] = descriptor;
  return kSuccess;
}

const char* ncclGetErrorString(Code code) {
  switch (code) {
    case kSuccess: return "no error";
    case kUnhandledCudaError: return "unhandled cuda error of the stand-in";
    case kSystemError: return "unhandled system error of the stand-in";
    case kInvalidArgument: return "invalid argument for the stand-in";
    case kInvalidUsage: return "invalid usage of the stand-in";
    case kInProgress: return "in progress";
    default: return "another error of the stand-in";
  }
}

const char* ncclGetLastError(Comm comm) { return comm == nullptr ? "" : comm->error_text.c_str(); }

Code ncclCommInitRankConfig(Comm* comm, int size, UniqueId id, int rank, Config* config) {
  STAND_IN_CALL(nullptr);
  *comm = nullptr;
  if (config == nullptr || config->magic != 0xcafebeef || config->size < sizeof(Config) ||
      config->blocking != 0) {
    Forbid("communicators are non-blocking, with a whole ncclConfig_t");
  }
  if (OfThread().context == nullptr) return kUnhandledCudaError;
  if (rank < 0 || rank >= size || size > byteps::standin::kRanksMax) return kInvalidArgument;
  GroupName name;
  std::memcpy(&name, id.bytes, sizeof(name));
  std::unique_ptr<GroupMemory> memory = GroupMemory::Open(name, rank);
  if (memory == nullptr) return kSystemError;
  auto made = std::make_unique<ncclComm>();
  made->name = name;
  made->device = OfThread().context->device;
  made->rank = std::make_shared<GroupRank>(std::move(memory), rank, size);
  if (ShowRank(*made) != CUDA_SUCCESS) return kUnhandledCudaError;
  *comm = made.release();
  std::lock_guard lock(TheNcclWorld().mutex);
  TheNcclWorld().all.insert(*comm);
  return kInProgress;
}

Code ncclCommGetAsyncError(Comm comm, Code* error) {
  STAND_IN_CALL(comm);
  *error = Progress(*comm);
  return kSuccess;
}

Code ncclCommFinalize(Comm comm) {
  STAND_IN_CALL(comm);
  if (comm->error != 0) return comm->error;
  if (comm->phase != ncclComm::Phase::kReady) return kInvalidArgument;
  comm->phase = ncclComm::Phase::kEnding;
  comm->was_asked = false;
  return kInProgress;
}

Code ncclCommDestroy(Comm comm) {
  STAND_IN_CALL(comm);
  if (comm->phase != ncclComm::Phase::kEnded) {
    Forbid("ncclCommDestroy before the end that ncclCommFinalize has begun");
  }
  this_call.Forget();
  Remove(comm);
  return kSuccess;
}

Code ncclCommAbort(Comm comm) {
  if (comm == nullptr) return kSuccess;
  STAND_IN_CALL(comm);
  AwaitAborts(*comm);
  this_call.Forget();
  Remove(comm);
  return kSuccess;
}

Code ncclGroupStart() {
  STAND_IN_CALL(nullptr);
  ++OfThisThread().depth;
  return kSuccess;
}

Code ncclGroupEnd() {
  GroupCall& group = OfThisThread();
  if (group.depth == 0) return kInvalidUsage;
  if (--group.depth > 0) return kSuccess;
  const std::vector<std::pair<Comm, Waiting>> items = std::exchange(group.items, {});
  STAND_IN_CALL(nullptr);
  std::set<Comm> comms;
  for (const auto& [comm, item] : items) comms.insert(comm);
  std::deque<NcclCall> calls;
  for (Comm comm : comms) calls.emplace_back("ncclGroupEnd", comm);
  return Enqueue(items);
}

Code ncclReduce(const void* from, void* to, size_t count, int type, int how, int root, Comm comm,
                Stream stream) {
  const auto kind = static_cast<int>(CollectiveKind::kReduce);
  return Collect(__func__, {kind, type, how, root, count}, from, to, comm, stream);
}

Code ncclBroadcast(const void* from, void* to, size_t count, int type, int root, Comm comm,
                   Stream stream) {
  const auto kind = static_cast<int>(CollectiveKind::kBroadcast);
  return Collect(__func__, {kind, type, 0, root, count}, from, to, comm, stream);
}

Code ncclAllReduce(const void* from, void* to, size_t count, int type, int how, Comm comm,
                   Stream stream) {
  const auto kind = static_cast<int>(CollectiveKind::kAllReduce);
  return Collect(__func__, {kind, type, how, 0, count}, from, to, comm, stream);
}

Code ncclReduceScatter(const void* from, void* to, size_t count, int type, int how, Comm comm,
                       Stream stream) {
  const auto kind = static_cast<int>(CollectiveKind::kReduceScatter);
  return Collect(__func__, {kind, type, how, 0, count}, from, to, comm, stream);
}

Code ncclAllGather(const void* from, void* to, size_t count, int type, Comm comm, Stream stream) {
  const auto kind = static_cast<int>(CollectiveKind::kAllGather);
  return Collect(__func__, {kind, type, 0, 0, count}, from, to, comm, stream);
}

}  // extern "C"

// The list of the library's declarations, compared with the functions above.
#define BYTEPS_NCCL_COMPARE(result, name, since, ...)                                     \
  static_assert(                                                                          \
      std::is_same_v<decltype(&::name), decltype(byteps::device::nccl::Functions::name)>, \
      #name " differs");
BYTEPS_NCCL_FUNCTIONS(BYTEPS_NCCL_COMPARE)
#undef BYTEPS_NCCL_COMPARE
