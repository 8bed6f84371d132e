// The stand-in keeps the real driver's rules: without them the tests over it would show nothing.
#include "tests/cuda_standin/standin.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/count_for_test.h"
#include "tests/cuda_standin/link_rates.h"
#include "tests/cuda_standin/standin_for_test.h"

namespace byteps::standin {
namespace {

// Gives time to what must not happen.
void GiveTime() {
  // tidy-allow(sleep): no event tells that something does not happen.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

class StandIn : public ::testing::Test {
 protected:
  StandIn() {
    EXPECT_EQ(cuMemAlloc_v2(&memory_, kBytes), CUDA_SUCCESS);
    EXPECT_EQ(cuMemHostAlloc(&host_, kBytes, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuEventCreate(&event_, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamCreateWithPriority(&stream_, CU_STREAM_DEFAULT, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamCreateWithPriority(&own_, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  }
  ~StandIn() override {
    stand_in_drain();
    EXPECT_EQ(cuStreamDestroy_v2(own_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy_v2(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuEventDestroy_v2(event_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeHost(host_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree_v2(memory_), CUDA_SUCCESS);
  }

  static constexpr size_t kBytes = 10000;
  CUdeviceptr host() const { return reinterpret_cast<CUdeviceptr>(host_); }

  const NothingLeft nothing_left_;
  const UserContext context_;
  CUdeviceptr memory_ = 0;
  void* host_ = nullptr;
  CUevent event_ = nullptr;
  CUstream stream_ = nullptr;  // blocking
  CUstream own_ = nullptr;     // not
};

TEST_F(StandIn, WorkIsDoneLater) {
  stand_in_hold(own_);
  std::memset(host_, 5, kBytes);
  ASSERT_EQ(cuMemcpyAsync(memory_, host(), kBytes, own_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event_, own_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event_), CUDA_ERROR_NOT_READY);
  EXPECT_NE(*stand_in_bytes(memory_), 5);
  std::memset(host_, 6, kBytes);  // a program that does not wait copies what comes later
  stand_in_let_go(own_);
  ASSERT_EQ(cuEventSynchronize(event_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event_), CUDA_SUCCESS);
  EXPECT_EQ(*stand_in_bytes(memory_), 6);
}

TEST_F(StandIn, TheDefaultStreamWaitsForBlockingStreamsAndTheyForIt) {
  CUstream const null = nullptr;
  for (auto [first, second] : {std::pair(stream_, null), std::pair(null, stream_)}) {
    stand_in_hold(first);
    ASSERT_EQ(cuEventRecord(event_, second), CUDA_SUCCESS);
    GiveTime();
    EXPECT_EQ(cuEventQuery(event_), CUDA_ERROR_NOT_READY);
    ASSERT_EQ(cuEventRecord(event_, own_), CUDA_SUCCESS);
    EXPECT_EQ(cuEventSynchronize(event_), CUDA_SUCCESS) << "a stream that is not blocking goes on";
    stand_in_let_go(first);
    stand_in_drain();
  }
}

TEST_F(StandIn, AStreamWaitsForAnEvent) {
  stand_in_hold(stream_);
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(own_, event_, 0), CUDA_SUCCESS);
  CUevent behind = nullptr;
  ASSERT_EQ(cuEventCreate(&behind, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(behind, own_), CUDA_SUCCESS);
  GiveTime();
  EXPECT_EQ(cuEventQuery(behind), CUDA_ERROR_NOT_READY);
  stand_in_let_go(stream_);
  EXPECT_EQ(cuEventSynchronize(behind), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy_v2(behind), CUDA_SUCCESS);
}

TEST_F(StandIn, AProcessorThatTouchesDeviceMemoryDies) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer has its own
    // tidy-allow(volatile): the compiler must not leave the read out.
    _exit(*reinterpret_cast<volatile unsigned char*>(memory_));
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFSIGNALED(how) && WTERMSIG(how) == SIGSEGV) << how;
}

TEST_F(StandIn, AChildOfForkCannotUseTheDriver) {
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    _exit(cuDeviceGetCount(&count));
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  EXPECT_EQ(WEXITSTATUS(how), CUDA_ERROR_NOT_INITIALIZED);
}

TEST_F(StandIn, CopiesOutsideOfAnAllocationFail) {
  EXPECT_EQ(cuMemcpyAsync(host(), memory_, kBytes + 1, own_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyAsync(host(), memory_ + 1, kBytes, own_), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr freed = 0;
  ASSERT_EQ(cuMemAlloc_v2(&freed, kBytes), CUDA_SUCCESS);
  unsigned char* const bytes = stand_in_bytes(freed);
  *bytes = 1;
  ASSERT_EQ(cuMemFree_v2(freed), CUDA_SUCCESS);
  EXPECT_EQ(*bytes, 0xdb) << "freed memory is poisoned";
  EXPECT_EQ(cuMemcpyAsync(host(), freed, 1, own_), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StandIn, CopiesWithPageableMemoryAreCountedAndBlock) {
  std::vector<unsigned char> plain(kBytes);
  std::memset(stand_in_bytes(memory_), 8, kBytes);
  stand_in_delay(1, 20000);
  const auto address = reinterpret_cast<CUdeviceptr>(plain.data());
  ASSERT_EQ(cuMemcpyAsync(address, memory_, kBytes, own_), CUDA_SUCCESS);
  EXPECT_EQ(plain.back(), 8) << "the copy has ended when the call returns";
  EXPECT_EQ(stand_in_count().pageable_copies, 1u);
  EXPECT_EQ(stand_in_count().copies, 1u);
  stand_in_reset();
}

TEST_F(StandIn, CopiesTakeAsLongAsTheirLink) {
  stand_in_rate(1e5);
  const auto begun = LinkRates::Clock::now();
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(cuMemcpyAsync(host(), memory_, kBytes, own_), CUDA_SUCCESS);
  }
  ASSERT_EQ(cuStreamSynchronize(own_), CUDA_SUCCESS);
  const std::chrono::duration<double> least(5 * kBytes / 1e5);
  EXPECT_GE(LinkRates::Clock::now() - begun, least - LinkRates::kAhead);
  stand_in_reset();
}

TEST(LinkRatesTest, CopiesOfAllDevicesPassTheLinkThatTheyShare) {
  LinkRates rates;
  rates.SetShared(1e5);
  const auto begun = LinkRates::Clock::now();
  for (int device : {0, 1}) rates.Pass(device, true, 1000, begun);
  rates.Pass(0, false, 1000, begun);
  EXPECT_GE(LinkRates::Clock::now() - begun, std::chrono::milliseconds(20) - LinkRates::kAhead);
}

TEST(LinkRatesTest, WhatGoesBetweenDevicesPassesTheirOwnLinksOnly) {
  LinkRates rates;
  rates.Set(1e5);
  rates.SetShared(1);
  const auto begun = LinkRates::Clock::now();
  rates.PassPeers(0, 1000, 2000, begun);
  EXPECT_GE(LinkRates::Clock::now() - begun, std::chrono::milliseconds(20) - LinkRates::kAhead);
}

TEST_F(StandIn, EachThreadHasAContextOfItsOwn) {
  CUresult code = CUDA_SUCCESS;
  std::thread([&] {
    CUdeviceptr none = 0;
    code = cuMemAlloc_v2(&none, 1);
  }).join();
  EXPECT_EQ(code, CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(StandIn, StreamsAndEventsBelongToOneContext) {
  std::thread([&] {
    const UserContext other(1);
    CUevent event = nullptr;
    ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(event, own_), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuMemcpyAsync(memory_, host(), kBytes, own_), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuEventDestroy_v2(event), CUDA_SUCCESS);
  }).join();
}

TEST_F(StandIn, AContextThatNobodyHoldsIsNone) {
  CUcontext context = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRelease_v2(1), CUDA_SUCCESS);
  std::thread([&] {
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    CUdeviceptr none = 0;
    EXPECT_EQ(cuMemAlloc_v2(&none, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  }).join();
}

TEST_F(StandIn, AFailedKernelBreaksTheContextAndOtherErrorsDoNot) {
  stand_in_fail("cuEventRecord", 1, CUDA_ERROR_INVALID_VALUE, 0);
  EXPECT_EQ(cuEventRecord(event_, own_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuEventRecord(event_, own_), CUDA_SUCCESS);
  stand_in_fail("cuEventRecord", 1, CUDA_ERROR_LAUNCH_FAILED, 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cuEventRecord(event_, own_), CUDA_ERROR_LAUNCH_FAILED);
  stand_in_reset();
}

TEST_F(StandIn, AnAllocationWaitsForAllStreams) {
  stand_in_hold(own_);
  std::atomic<bool> is_back = false;
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  std::thread caller([&] {
    void* pinned = nullptr;
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    EXPECT_EQ(cuMemHostAlloc(&pinned, 1, 0), CUDA_SUCCESS);
    is_back = true;
    EXPECT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
  });
  GiveTime();
  EXPECT_FALSE(is_back);
  stand_in_let_go(own_);
  caller.join();
}

TEST_F(StandIn, AThreadThatTellsOfCopiesMustNotAllocate) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto allocate = [this] {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    void* pinned = nullptr;
    cuThreadExchangeStreamCaptureMode(&mode);
    cuEventSynchronize(event_);
    cuMemHostAlloc(&pinned, 1, 0);
  };
  EXPECT_DEATH(allocate(), "cuMemHostAlloc on a thread that waits for copies");
}

TEST_F(StandIn, ABrokenContextStaysBroken) {
  stand_in_break(CUDA_ERROR_ILLEGAL_ADDRESS);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cuEventRecord(event_, own_), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr none = 0;
  EXPECT_EQ(cuMemAlloc_v2(&none, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
  stand_in_reset();
}

TEST_F(StandIn, ALoadOfAKernelBlocksOtherThreadsUntilAllStreamsAreEmpty) {
  stand_in_hold(own_);
  std::thread loader([] { stand_in_load_kernel(); });
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (stand_in_is_locked() == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_NE(stand_in_is_locked(), 0);
  std::atomic<bool> is_back = false;
  std::thread caller([&] {
    int count = 0;
    EXPECT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
    is_back = true;
  });
  GiveTime();
  EXPECT_FALSE(is_back);
  stand_in_let_go(own_);
  caller.join();
  loader.join();
}

TEST_F(StandIn, UnsafeCallsOfOtherThreadsBreakACapture) {
  for (CUstreamCaptureMode of_other :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    ASSERT_EQ(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_EQ(cuStreamIsCapturing(stream_, &status), CUDA_SUCCESS);
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_EQ(cuStreamIsCapturing(nullptr, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    CUcontext context = nullptr;
    ASSERT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    CUresult code = CUDA_SUCCESS;
    std::thread([&] {
      CUstreamCaptureMode mode = of_other;
      EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
      EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
      EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL) << "the mode of a new thread";
      code = cuEventQuery(event_);
    }).join();
    const bool breaks = of_other == CU_STREAM_CAPTURE_MODE_GLOBAL;
    EXPECT_EQ(code, breaks ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph),
              breaks ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
  }
}

TEST_F(StandIn, AnEventOfACaptureCannotBeAsked) {
  ASSERT_EQ(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event_), CUDA_ERROR_CAPTURED_EVENT);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
}

TEST_F(StandIn, TheNthCallFailsOnceOrForEver) {
  stand_in_fail("cuEventRecord", 2, CUDA_ERROR_OUT_OF_MEMORY, 0);
  EXPECT_EQ(cuEventRecord(event_, own_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(event_, own_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuEventRecord(event_, own_), CUDA_SUCCESS);
  stand_in_fail("cuEventRecord", 1, CUDA_ERROR_OUT_OF_MEMORY, 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cuEventRecord(event_, own_), CUDA_ERROR_OUT_OF_MEMORY);
  stand_in_reset();
}

}  // namespace
}  // namespace byteps::standin
