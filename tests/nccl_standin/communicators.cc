#include "tests/nccl_standin/communicators.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/cuda_standin/world.h"

namespace byteps::standin {
namespace {

namespace nccl = device::nccl;

bool MayShareGpus() {
  const char* set = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  NcclWorld& world = TheNcclWorld();
  std::lock_guard lock(world.mutex);
  return world.shares_gpus || (set != nullptr && std::string(set) == "1");
}

// Closes the file of a unique id that this process has made.
void CloseId(const GroupName& name) {
  NcclWorld& world = TheNcclWorld();
  std::lock_guard lock(world.mutex);
  auto found = world.ids.find(name.nonce);
  if (found == world.ids.end()) return;
  close(found->second);
  world.ids.erase(found);
}

std::string Both(int one, int other) {
  return "rank " + std::to_string(one) + " and rank " + std::to_string(other);
}

// Compares all ranks, which have come.
int Compare(ncclComm& comm) {
  GroupMemory& memory = *comm.rank->memory;
  for (int one = 0; one < comm.rank->size; ++one) {
    for (int other = one + 1; other < comm.rank->size; ++other) {
      const RankPlace& first = memory.of(one);
      const RankPlace& second = memory.of(other);
      if (first.version != second.version) {
        return Fail(comm, nccl::kInvalidUsage,
                    "stand-in: mismatched NCCL versions: " + Both(one, other) + " have " +
                        std::to_string(first.version) + " and " + std::to_string(second.version));
      }
      const bool is_same = std::memcmp(first.uuid, second.uuid, sizeof(first.uuid)) == 0;
      if (is_same && !MayShareGpus()) {
        return Fail(comm, nccl::kInvalidUsage,
                    "stand-in: multiple ranks are using the same GPU: " + Both(one, other));
      }
    }
  }
  return nccl::kSuccess;
}

int Meet(ncclComm& comm) {
  GroupMemory& memory = *comm.rank->memory;
  for (int other = 0; other < comm.rank->size; ++other) {
    if (memory.of(other).has_joined == 0) return nccl::kInProgress;
  }
  CloseId(comm.name);
  const int compared = Compare(comm);
  if (compared != nccl::kSuccess) return compared;
  comm.phase = ncclComm::Phase::kReady;
  return nccl::kSuccess;
}

// Returns where a collective finds bytes of a device, or of pinned host memory; null: they are not
// all there.
unsigned char* BytesOf(CUdeviceptr address, size_t bytes) {
  DeviceMemory* const memory = MemoryWith(address);
  if (memory == nullptr) {
    auto* const pinned = reinterpret_cast<unsigned char*>(address);
    return IsPinned(reinterpret_cast<const char*>(pinned), bytes) ? pinned : nullptr;
  }
  std::lock_guard lock(TheWorld().mutex);
  return memory->IsTaken(address, bytes) ? memory->BytesAt(address) : nullptr;
}

// Does a collective, on the thread of its stream. Returns what the rank sends and receives.
RingBytes Run(GroupRank& rank, const Waiting& item) {
  World& cuda = TheWorld();
  const size_t element = ElementBytes(item.call.type);
  if (item.call.count == 0) {
    (void)rank.Run(item.call, {});
    return {};
  }
  const size_t input = InputCount(item.call, rank.size) * element;
  const size_t output = OutputCount(item.call, rank.size) * element;
  const bool gets_all =
      item.call.kind != static_cast<int>(CollectiveKind::kReduce) || rank.rank == item.call.root;
  unsigned char* const from = BytesOf(item.from, input);
  unsigned char* const to = gets_all ? BytesOf(item.to, output) : from;
  {
    std::lock_guard lock(cuda.mutex);
    if (from == nullptr || to == nullptr) cuda.broken = CUDA_ERROR_ILLEGAL_ADDRESS;
    if (cuda.broken != CUDA_SUCCESS) return {};
  }
  if (!rank.Run(item.call, {from, to})) return {};
  NcclWorld& world = TheNcclWorld();
  std::lock_guard lock(world.mutex);
  ++world.collectives;
  world.bytes += input;
  return BytesInRing(item.call, rank.rank, rank.size);
}

// Gives the stream what waits.
void Launch(ncclComm& comm) {
  if (comm.waiting.empty()) return;
  const size_t count = comm.waiting.size();
  {
    std::lock_guard lock(comm.under_way->mutex);
    ++comm.under_way->running;
  }
  auto work = [rank = comm.rank, device = comm.device, under_way = comm.under_way,
               items = std::move(comm.waiting)] {
    const auto begun = LinkRates::Clock::now();
    RingBytes all;  // collectives of one launch run side by side
    for (const Waiting& item : items) {
      if (rank->aborts) continue;
      const RingBytes one = Run(*rank, item);
      all.sent += one.sent;
      all.received += one.received;
    }
    TheWorld().rates.PassPeers(device, all.sent, all.received, begun);
    std::lock_guard lock(under_way->mutex);
    --under_way->running;
    under_way->changed.notify_all();
  };
  comm.waiting.clear();
  Give(StreamOf(comm.stream), work);
  std::lock_guard lock(TheNcclWorld().mutex);
  TheNcclWorld().begun += count;
}

}  // namespace

NcclWorld& TheNcclWorld() {
  // tidy-allow(global): NCCL is one for a process, and its C interface has no object.
  // tidy-allow(new): threads of streams may run until the process has ended.
  static NcclWorld* const world = new NcclWorld;
  return *world;
}

void Forbid(const std::string& what) {
  std::fprintf(stderr, "stand-in for NCCL: %s\n", what.c_str());
  std::abort();
}

NcclCall::NcclCall(const char* function, ncclComm* comm) : comm_(comm) {
  NcclWorld& world = TheNcclWorld();
  std::unique_lock lock(world.mutex);
  if (comm != nullptr) {
    if (!world.all.contains(comm)) {
      Forbid(std::string(function) + " of a communicator that has ended");
    }
    const char* const other = comm->call.exchange(function);
    if (other != nullptr) {
      Forbid(std::string(function) + " while another thread is inside " + other +
             " of the same communicator");
    }
  }
  ++world.standing[function];
  world.changed.wait(lock, [&] { return !world.held.contains(function); });
  --world.standing[function];
  auto failure = world.failures.find(function);
  if (failure == world.failures.end() || --failure->second.first > 0) return;
  error_ = failure->second.second;
  world.failures.erase(failure);
  if (comm != nullptr) comm->error_text = "stand-in: the test wants this error";
}

NcclCall::~NcclCall() {
  if (comm_ != nullptr) comm_->call = nullptr;
}

int Fail(ncclComm& comm, int code, const std::string& text) {
  comm.error = code;
  comm.error_text = text;
  return code;
}

int Progress(ncclComm& comm) {
  {
    NcclWorld& world = TheNcclWorld();
    std::lock_guard lock(world.mutex);
    if (world.broken != 0 && comm.error == 0) {
      Fail(comm, world.broken, "stand-in: the connection to a rank is lost");
    }
  }
  if (comm.error != 0) return comm.error;
  if (!std::exchange(comm.was_asked, true)) return nccl::kInProgress;
  if (comm.phase == ncclComm::Phase::kMeeting) return Meet(comm);
  Launch(comm);
  if (comm.phase != ncclComm::Phase::kEnding) return nccl::kSuccess;
  {
    std::lock_guard lock(comm.under_way->mutex);
    if (comm.under_way->running > 0) return nccl::kInProgress;
  }
  if (comm.rank->memory->own().has_left.exchange(1) == 0) comm.rank->memory->Notify();
  for (int other = 0; other < comm.rank->size; ++other) {
    if (comm.rank->memory->of(other).has_left == 0) return nccl::kInProgress;
  }
  comm.phase = ncclComm::Phase::kEnded;
  return nccl::kSuccess;
}

// Ranks that have not met wait for nobody, and so do ranks of a group whose ranks refuse each
// other.
void AwaitAborts(ncclComm& comm) {
  comm.rank->aborts = true;
  GroupMemory& memory = *comm.rank->memory;
  memory.own().has_aborted = 1;
  memory.Notify();
  {
    std::unique_lock lock(comm.under_way->mutex);
    comm.under_way->changed.wait(lock, [&] { return comm.under_way->running == 0; });
  }
  if (comm.phase == ncclComm::Phase::kMeeting) return CloseId(comm.name);
  auto have_all_aborted = [&] {
    for (int other = 0; other < comm.rank->size; ++other) {
      const RankPlace& place = memory.of(other);
      if (place.has_aborted == 0 && place.has_left == 0 && memory.Lives(other)) return false;
    }
    return true;
  };
  memory.Wait(have_all_aborted, [] { return false; });
}

void Remove(ncclComm* comm) {
  const std::unique_ptr<ncclComm> removed(comm);
  NcclWorld& world = TheNcclWorld();
  std::lock_guard lock(world.mutex);
  world.all.erase(comm);
}

}  // namespace byteps::standin
