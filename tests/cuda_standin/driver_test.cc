// Tests of the library with a CUDA driver that is missing, too old, broken, or busy.
#include <atomic>
#include <cstring>
#include <filesystem>
#include <future>
#include <thread>
#include <vector>

#include "src/device/conformance.h"
#include "src/device/copy_line.h"
#include "src/device/cuda/cuda_devices.h"
#include "src/device/cuda/driver.h"
#include "src/device/ready_line.h"
#include "tests/cuda_standin/standin_for_test.h"

namespace byteps::device::cuda {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A mark that tells when a thread begins to wait for it.
class ToldMark final : public Mark {
 public:
  ToldMark(std::unique_ptr<Mark> of, Count& waits) : of_(std::move(of)), waits_(waits) {}
  Status Wait() override {
    waits_.Add();
    return of_->Wait();
  }
  Result<bool> IsReached() override { return of_->IsReached(); }

 private:
  const std::unique_ptr<Mark> of_;
  Count& waits_;
};

std::string WhyNot(const std::string& library) {
  Result<std::unique_ptr<Devices>> found = FindDevices(library);
  EXPECT_FALSE(found.ok());
  if (found.ok()) return "";
  EXPECT_EQ(found.status().code(), StatusCode::kUnavailable);
  return found.status().message();
}

TEST(CudaDriver, AMissingLibraryIsOneSentence) {
  const std::string why = WhyNot("/nowhere/libcuda.so.1");
  EXPECT_NE(why.find("/nowhere/libcuda.so.1"), std::string::npos) << why;
  EXPECT_NE(why.find("install NVIDIA's driver"), std::string::npos) << why;
  EXPECT_EQ(why.find('\n'), std::string::npos) << why;
}

TEST(CudaDriver, AnOldDriverIsToldWithFunctionAndVersions) {
  const auto folder = std::filesystem::path(standin::LibraryPath()).parent_path();
  const std::string why = WhyNot((folder / "libbyteps_cuda_standin_old.so").string());
  for (const char* part : {"libbyteps_cuda_standin_old.so", "version 10.2", "cuGetErrorName",
                           "since version 6.0", "install a newer driver"}) {
    EXPECT_NE(why.find(part), std::string::npos) << part << " is not in: " << why;
  }
}

TEST(CudaDriver, ADriverThatDoesNotStartIsToldWithItsOwnError) {
  const standin::NothingLeft nothing;
  stand_in_fail("cuInit", 1, CUDA_ERROR_NO_DEVICE, 0);
  const std::string why = WhyNot(standin::LibraryPath());
  EXPECT_NE(why.find("CUDA_ERROR_NO_DEVICE (100)"), std::string::npos) << why;
}

TEST(CudaDriver, LookingMakesNoContext) {
  const standin::NothingLeft nothing;
  Result<std::unique_ptr<Devices>> found = FindDevices(standin::LibraryPath());
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(stand_in_count().contexts, 0);
  ASSERT_TRUE(found.value()->Open(1).ok());
  EXPECT_EQ(stand_in_count().contexts, 1) << "and only of the device that somebody has opened";
  const DeviceFacts& facts = found.value()->Open(1).value()->facts();
  EXPECT_NE(facts.name.find("stand-in"), std::string::npos) << facts.name;
  EXPECT_EQ(facts.uuid, "51515151515151515151515151515151");
  EXPECT_EQ(facts.address, "0000:11:00.0");
}

TEST(CudaDriver, AThreadKeepsItsOwnContext) {
  const standin::NothingLeft nothing;
  Result<std::unique_ptr<Devices>> found = FindDevices(standin::LibraryPath());
  ASSERT_TRUE(found.ok());
  Device& device = *found.value()->Open(1).value();
  CUcontext current = nullptr;
  {
    const standin::UserContext own(0);
    ASSERT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    const CUcontext before = current;
    EXPECT_TRUE(device.MarkOf(nullptr).ok());
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, before);
  }
  EXPECT_TRUE(device.MarkOf(nullptr).ok()) << "a thread without a context";
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, nullptr);
}

class CudaDriverLines : public ::testing::Test {
 protected:
  CudaDriverLines() {
    devices_ = FindDevices(standin::LibraryPath()).value();
    device_ = devices_->Open(0).value();
    EXPECT_EQ(cuMemAlloc_v2(&memory_, kBytes), CUDA_SUCCESS);
    EXPECT_EQ(cuMemHostAlloc(&host_, kBytes, 0), CUDA_SUCCESS);
  }
  ~CudaDriverLines() override {
    EXPECT_EQ(cuMemFreeHost(host_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree_v2(memory_), CUDA_SUCCESS);
  }

  static constexpr size_t kBytes = 4096;
  std::byte* host() const { return static_cast<std::byte*>(host_); }
  const std::byte* memory() const { return reinterpret_cast<const std::byte*>(memory_); }

  const standin::NothingLeft nothing_left_;
  const standin::UserContext context_;
  std::unique_ptr<Devices> devices_;
  Device* device_ = nullptr;
  CUdeviceptr memory_ = 0;
  void* host_ = nullptr;
};

// A thread of a job gives work to lines, and takes it back, while the driver is blocked.
TEST_F(CudaDriverLines, ABlockedDriverHoldsNoCallerUp) {
  Count ended;
  CopyLine line(Lent(*device_));
  ReadyLine ready(Lent(*device_));
  line.Copy(1, host(), memory(), kBytes, [&](const Status&) { ended.Add(); });
  ASSERT_TRUE(ended.Reaches(1));
  std::unique_ptr<Mark> mark = device_->MarkOf(nullptr).value();
  std::atomic<bool> is_locked = false;
  std::atomic<bool> may_unlock = false;
  std::thread loader([&] {
    stand_in_lock();
    is_locked = true;
    is_locked.notify_all();
    may_unlock.wait(false);
    stand_in_unlock();
  });
  is_locked.wait(false);
  std::future<bool> calls = std::async(std::launch::async, [&] {
    auto count = [&](const Status&) { ended.Add(); };
    line.Copy(1, host(), memory(), kBytes, count);
    const bool awaits = ready.Await(2, nullptr, std::move(mark), count).ok();
    line.Copy(3, host(), memory(), kBytes, count);
    line.CallOff(3, [] {});
    return awaits;
  });
  EXPECT_EQ(calls.wait_for(kPatience), std::future_status::ready) << "a caller waits";
  EXPECT_FALSE(ended.Reaches(2, milliseconds(100))) << "the driver is blocked";
  may_unlock = true;
  may_unlock.notify_all();
  loader.join();
  EXPECT_TRUE(calls.get());
  EXPECT_TRUE(ended.Reaches(3));
}

TEST_F(CudaDriverLines, ABrokenContextEndsEveryCopyAndMark) {
  Count ended;
  CopyLine line(Lent(*device_));
  ReadyLine ready(Lent(*device_));
  std::atomic<int> failed = 0;
  auto count = [&](const Status& status) {
    failed += status.code() == StatusCode::kUnavailable ? 1 : 0;
    ended.Add();
  };
  stand_in_hold(nullptr);
  ASSERT_TRUE(ready.Await(1, nullptr, device_->MarkOf(nullptr).value(), count).ok());
  stand_in_break(CUDA_ERROR_ILLEGAL_ADDRESS);
  line.Copy(1, host(), memory(), kBytes, count);
  stand_in_let_go(nullptr);
  ASSERT_TRUE(ended.Reaches(2));
  EXPECT_EQ(failed, 2);
  Result<std::unique_ptr<Mark>> mark = device_->MarkOf(nullptr);
  ASSERT_FALSE(mark.ok());
  EXPECT_NE(mark.status().message().find("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), std::string::npos)
      << mark.status().message();
  EXPECT_NE(mark.status().message().find("cuda:0"), std::string::npos);
  stand_in_reset();
}

// A hundred users' lines leave nothing behind (NothingLeft).
TEST_F(CudaDriverLines, LinesThatComeAndGoLeaveNothing) {
  for (int i = 0; i < 100; ++i) {
    Count ended;
    CopyLine line(Lent(*device_));
    line.Copy(1, host(), memory(), kBytes, [&](const Status&) { ended.Add(); });
    std::unique_ptr<Mark> mark = device_->MarkOf(nullptr).value();
    ReadyLine ready(Lent(*device_));
    ASSERT_TRUE(ready.Await(1, nullptr, std::move(mark), [&](const Status&) { ended.Add(); }).ok());
    ASSERT_TRUE(ended.Reaches(2));
  }
  EXPECT_LE(stand_in_count().events, 1) << "marks use their events again";
}

// A stream of the user that never comes to its end does not hold up the end of a line. The thread
// that waits for this stream goes on when it may, with a context of its own.
TEST_F(CudaDriverLines, AStreamThatNeverEndsDoesNotHoldUpTheEnd) {
  stand_in_hold(nullptr);
  Count waits;
  {
    const std::shared_ptr<Devices> devices = FindDevices(standin::LibraryPath()).value();
    const std::shared_ptr<Device> device(devices, devices->Open(0).value());
    ReadyLine ready(device, milliseconds(20));
    Count told;
    auto mark = std::make_unique<ToldMark>(device->MarkOf(nullptr).value(), waits);
    ASSERT_TRUE(ready.Await(1, nullptr, std::move(mark), [&](const Status&) { told.Add(); }).ok());
    EXPECT_TRUE(waits.Reaches(1));
    EXPECT_FALSE(told.Reaches(1, milliseconds(20)));
    EXPECT_TRUE(ready.CallOff(1));
  }
  EXPECT_EQ(stand_in_count().contexts, 3) << "of the thread, the user, and the test's devices";
  stand_in_let_go(nullptr);
  const auto deadline = steady_clock::now() + kPatience;
  while (stand_in_count().contexts > 2 && steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(stand_in_count().contexts, 2);
}

}  // namespace
}  // namespace byteps::device::cuda
