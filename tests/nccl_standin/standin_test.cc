// The stand-in keeps NCCL's rules: without them the tests over it would show nothing.
#include "tests/nccl_standin/standin.h"

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "src/device/nccl/library_api.h"
#include "tests/cuda_standin/standin_for_test.h"
#include "tests/cuda_standin/user_memory.h"
#include "tests/nccl_standin/standin_for_test.h"

namespace byteps::standin {
namespace {

using device::nccl::Code;
using device::nccl::Comm;
using device::nccl::Functions;
using device::nccl::kInProgress;
using device::nccl::kInvalidArgument;
using device::nccl::kInvalidUsage;
using device::nccl::kSuccess;
using device::nccl::kSystemError;

// Long enough to see that something does not happen.
constexpr auto kAWhile = std::chrono::milliseconds(50);

Functions Found() {
  void* const library = dlopen(NcclPath().c_str(), RTLD_NOW | RTLD_NOLOAD);
  Functions found;
#define STAND_IN_FIND(result, name, since, ...) \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library, #name));
  BYTEPS_NCCL_FUNCTIONS(STAND_IN_FIND)
#undef STAND_IN_FIND
  return found;
}

class NcclStandIn : public ::testing::Test {
 protected:
  Comm Join(const device::nccl::UniqueId& id, int rank, int size, Code expected = kInProgress) {
    device::nccl::Config config;
    config.blocking = 0;
    Comm comm = nullptr;
    EXPECT_EQ(nccl.ncclCommInitRankConfig(&comm, size, id, rank, &config), expected);
    return comm;
  }
  device::nccl::UniqueId NewId() {
    device::nccl::UniqueId id{};
    EXPECT_EQ(nccl.ncclGetUniqueId(&id), kSuccess);
    return id;
  }
  Code State(Comm comm) {
    Code state = kSuccess;
    EXPECT_EQ(nccl.ncclCommGetAsyncError(comm, &state), kSuccess);
    return state;
  }
  // Asks as long as the communicator is in progress.
  Code Await(Comm comm) {
    Code state = kInProgress;
    while (state == kInProgress) state = State(comm);
    return state;
  }
  // Lets each rank join on a device of its own, or on device 0.
  std::vector<Comm> Meet(int size, bool share = false) {
    const device::nccl::UniqueId id = NewId();
    std::vector<Comm> comms;
    for (int rank = 0; rank < size; ++rank) {
      const UserContext context(share ? 0 : rank % STAND_IN_DEVICES);
      comms.push_back(Join(id, rank, size));
    }
    return comms;
  }
  void Abort(std::vector<Comm> comms) {
    std::vector<std::thread> threads;
    for (Comm comm : comms) threads.emplace_back([this, comm] { nccl.ncclCommAbort(comm); });
    for (std::thread& thread : threads) thread.join();
  }

  const Functions nccl = Found();
  const NothingLeft nothing_left_;
  const NoGroupsLeft no_groups_left_;
};

TEST_F(NcclStandIn, RanksOfOneGpuRefuseEachOther) {
  std::vector<Comm> comms = Meet(2, true);
  EXPECT_EQ(Await(comms[0]), kInvalidUsage);
  EXPECT_NE(std::string(nccl.ncclGetLastError(comms[0])).find("same GPU"), std::string::npos);
  Abort(comms);
  nccl_stand_in_share_gpus();
  comms = Meet(2, true);
  EXPECT_EQ(Await(comms[0]), kSuccess);
  EXPECT_EQ(Await(comms[1]), kSuccess);
  Abort(comms);
}

TEST_F(NcclStandIn, RanksOfOtherVersionsRefuseEachOther) {
  const device::nccl::UniqueId id = NewId();
  const UserContext context(0);
  Comm first = Join(id, 0, 2);
  nccl_stand_in_version(22902);
  const UserContext other(1);
  Comm second = Join(id, 1, 2);
  EXPECT_EQ(Await(first), kInvalidUsage);
  EXPECT_NE(std::string(nccl.ncclGetLastError(first)).find("22803 and 22902"), std::string::npos);
  EXPECT_EQ(Await(second), kInvalidUsage);
  Abort({first, second});
}

TEST_F(NcclStandIn, ARankThatDoesNotComeKeepsTheMeetingOpen) {
  const UserContext context(0);
  Comm alone = Join(NewId(), 0, 2);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(State(alone), kInProgress);
  Abort({alone});  // waits for nobody
  device::nccl::UniqueId nobody{};
  EXPECT_EQ(Join(nobody, 0, 2, kSystemError), nullptr);
}

class NcclStandInGroup : public NcclStandIn {
 protected:
  static constexpr size_t kBytes = 4096;
  explicit NcclStandInGroup(int size = 3) {
    nccl_stand_in_share_gpus();
    comms = Meet(size);
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(Await(comms[rank]), kSuccess);
      In(rank, [&] {
        streams.emplace_back();
        memory.emplace_back(kBytes);
      });
    }
  }
  ~NcclStandInGroup() override {
    Abort(comms);
    streams.clear();
    const UserContext any(0);
    memory.clear();
  }
  // Does something on the device of a rank.
  void In(int rank, const std::function<void()>& work) {
    const UserContext context(rank % STAND_IN_DEVICES);
    work();
  }
  void Give(int rank, const std::vector<float>& values) {
    std::memcpy(stand_in_bytes(Address(rank)), values.data(), values.size() * sizeof(float));
  }
  std::vector<float> Got(int rank, size_t count) {
    std::vector<float> values(count);
    std::memcpy(values.data(), stand_in_bytes(Address(rank)), count * sizeof(float));
    return values;
  }
  CUdeviceptr Address(int rank) { return reinterpret_cast<CUdeviceptr>(memory[rank].data()); }
  Code AllReduce(int rank, size_t count) {
    void* const data = memory[rank].data();
    return nccl.ncclAllReduce(data, data, count, device::nccl::kFloat32, device::nccl::kSum,
                              comms[rank], streams[rank].get());
  }
  void AwaitStream(int rank) {
    In(rank, [&] { EXPECT_EQ(cuStreamSynchronize(streams[rank].get()), CUDA_SUCCESS); });
  }

  std::vector<Comm> comms;
  std::deque<UserStream> streams;
  std::deque<UserMemory> memory;
};

// The share of rank 0 begins at rank 1, and so on: 1e8 + -1e8 + 1 is 1, and 1e8 + 1 + -1e8 is 0.
TEST_F(NcclStandInGroup, EachShareOfASumHasAnotherOrder) {
  Give(0, {1e8f, 1e8f, 1e8f});
  Give(1, {1, 1, 1});
  Give(2, {-1e8f, -1e8f, -1e8f});
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(AllReduce(rank, 3), kInProgress);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(Await(comms[rank]), kSuccess);
  for (int rank = 0; rank < 3; ++rank) AwaitStream(rank);
  const std::vector<float> sums = {(1 + -1e8f) + 1e8f, (-1e8f + 1e8f) + 1, (1e8f + 1) + -1e8f};
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(Got(rank, 3), sums);
  EXPECT_NE(sums[0], sums[1]) << "otherwise the test shows nothing";
  EXPECT_EQ(nccl_stand_in_count().collectives, 3u);
  EXPECT_EQ(nccl_stand_in_count().bytes, 36u);
}

// A caller that records its event too early sees it reached before the collective.
TEST_F(NcclStandInGroup, ACollectiveGetsIntoItsStreamLate) {
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(AllReduce(rank, 4), kInProgress);
  AwaitStream(0);
  EXPECT_EQ(nccl_stand_in_count().begun, 0u);
  EXPECT_EQ(State(comms[0]), kInProgress);
  EXPECT_EQ(nccl_stand_in_count().begun, 0u);
  EXPECT_EQ(AllReduce(0, 4), kInvalidArgument) << "before the call before it has ended";
  EXPECT_EQ(State(comms[0]), kSuccess);
  EXPECT_EQ(nccl_stand_in_count().begun, 1u);
}

TEST_F(NcclStandInGroup, MemoryMustBeOfTheDevice) {
  float of_host[4] = {};
  EXPECT_EQ(
      nccl.ncclAllGather(of_host, of_host, 4, device::nccl::kUint8, comms[0], streams[0].get()),
      kInvalidArgument);
  EXPECT_EQ(nccl.ncclAllGather(memory[1].data(), memory[1].data(), 4, device::nccl::kUint8,
                               comms[0], streams[0].get()),
            kInvalidArgument);
}

// An abort waits for a rank that lives and does not abort, and ends what hangs on its own rank.
TEST_F(NcclStandInGroup, AnAbortWaitsForTheOtherRanks) {
  EXPECT_EQ(AllReduce(0, 4), kInProgress);
  EXPECT_EQ(Await(comms[0]), kSuccess);
  std::atomic<int> ended = 0;
  std::vector<std::thread> threads;
  for (int rank : {0, 1}) {
    threads.emplace_back([&, rank] {
      nccl.ncclCommAbort(comms[rank]);
      ++ended;
    });
  }
  // tidy-allow(sleep): no event tells that something does not happen.
  std::this_thread::sleep_for(kAWhile);
  EXPECT_EQ(ended, 0);
  nccl.ncclCommAbort(comms[2]);
  for (std::thread& thread : threads) thread.join();
  AwaitStream(0);
  EXPECT_EQ(nccl_stand_in_count().collectives, 0u);
  comms.clear();
}

TEST_F(NcclStandInGroup, TheEndWaitsForTheOtherRanks) {
  for (int rank : {0, 1}) EXPECT_EQ(nccl.ncclCommFinalize(comms[rank]), kInProgress);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(State(comms[0]), kInProgress);
  EXPECT_EQ(nccl.ncclCommFinalize(comms[2]), kInProgress);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(State(comms[2]), kInProgress);  // it hears of the others
  for (int i = 0; i < 2; ++i) State(comms[1]);
  for (Comm comm : comms) {
    EXPECT_EQ(Await(comm), kSuccess);
    EXPECT_EQ(nccl.ncclCommDestroy(comm), kSuccess);
  }
  comms.clear();
}

// Two threads in one communicator, also if one of them aborts it, and a communicator that has
// ended.
class NcclStandInDeath : public NcclStandInGroup {
 protected:
  NcclStandInDeath() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(NcclStandInDeath, TwoThreadsInOneCommunicatorEndTheProcess) {
  for (const bool aborts : {false, true}) {
    EXPECT_DEATH(
        {
          nccl_stand_in_hold("ncclCommGetAsyncError");
          std::thread first([this] { State(comms[0]); });
          while (nccl_stand_in_is_held("ncclCommGetAsyncError") == 0) std::this_thread::yield();
          aborts ? nccl.ncclCommAbort(comms[0]) : State(comms[0]);
        },
        "while another thread is inside ncclCommGetAsyncError");
  }
}

TEST_F(NcclStandInDeath, ACommunicatorThatHasEndedEndsTheProcess) {
  EXPECT_DEATH(
      {
        Abort(comms);
        State(comms[0]);
      },
      "communicator that has ended");
}

}  // namespace
}  // namespace byteps::standin
