// The conformance suite of devices, through the CUDA driver's names over the stand-in.
#include <cstring>
#include <utility>
#include <vector>

#include "src/device/conformance.h"
#include "src/device/cuda/cuda_devices.h"
#include "tests/cuda_standin/standin_for_test.h"

namespace byteps::device {
namespace {

struct FillWork {
  CUdeviceptr address;
  size_t bytes;
  uint8_t value;
};

class StandInUser final : public DeviceUser {
 public:
  explicit StandInUser(uint64_t delay_us_max) {
    stand_in_delay(1, delay_us_max);
    Result<std::unique_ptr<Devices>> found = cuda::FindDevices(standin::LibraryPath());
    EXPECT_TRUE(found.ok()) << found.status().ToString();
    devices_ = std::move(found).value();
  }
  ~StandInUser() override {
    stand_in_drain();
    for (CUdeviceptr memory : memory_) EXPECT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
    for (CUstream stream : streams_) EXPECT_EQ(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
  }

  Devices& devices() override { return *devices_; }
  void* NewStream() override {
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreateWithPriority(&stream, CU_STREAM_DEFAULT, 0), CUDA_SUCCESS);
    streams_.push_back(stream);
    return stream;
  }
  std::byte* NewMemory(int device, size_t bytes) override {
    CUcontext before = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&before), CUDA_SUCCESS);
    CUcontext context = nullptr;
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    CUdeviceptr memory = 0;
    EXPECT_EQ(cuMemAlloc_v2(&memory, bytes), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(before), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(device), CUDA_SUCCESS);
    memory_.push_back(memory);
    return reinterpret_cast<std::byte*>(memory);
  }
  void Fill(void* stream, std::byte* memory, size_t bytes, uint8_t value) override {
    auto* work = new FillWork{AddressOf(memory), bytes, value};  // tidy-allow(new): the kernel's
    auto fill = [](void* context) {
      const std::unique_ptr<FillWork> own(static_cast<FillWork*>(context));
      std::memset(stand_in_bytes(own->address), own->value, own->bytes);
    };
    stand_in_kernel(static_cast<CUstream>(stream), fill, work);
  }
  std::vector<uint8_t> Read(const std::byte* memory, size_t bytes) override {
    std::vector<uint8_t> read(bytes);
    std::memcpy(read.data(), stand_in_bytes(AddressOf(memory)), bytes);
    return read;
  }
  void Hold(void* stream) override { stand_in_hold(static_cast<CUstream>(stream)); }
  void LetGo(void* stream) override { stand_in_let_go(static_cast<CUstream>(stream)); }
  void BeginCapture(void* stream) override {
    const auto mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    EXPECT_EQ(cuStreamBeginCapture_v2(static_cast<CUstream>(stream), mode), CUDA_SUCCESS);
  }
  bool EndCapture(void* stream) override {
    CUgraph graph = nullptr;
    return cuStreamEndCapture(static_cast<CUstream>(stream), &graph) == CUDA_SUCCESS;
  }
  void FailOnce(Step step) override {
    const char* const function = step == Step::kCopy    ? "cuMemcpyAsync"
                                 : step == Step::kClose ? "cuEventRecord"
                                                        : "cuEventSynchronize";
    stand_in_fail(function, 1, CUDA_ERROR_INVALID_VALUE, 0);
  }

 private:
  static CUdeviceptr AddressOf(const std::byte* memory) {
    return reinterpret_cast<CUdeviceptr>(memory);
  }

  const standin::NothingLeft nothing_left_;
  const standin::UserContext context_;
  std::unique_ptr<Devices> devices_;
  std::vector<CUstream> streams_;
  std::vector<CUdeviceptr> memory_;
};

INSTANTIATE_TEST_SUITE_P(
    StandIn, DeviceConformance,
    ::testing::Values(Kind{"at once", [] { return std::make_unique<StandInUser>(0); }},
                      Kind{"late", [] { return std::make_unique<StandInUser>(200); }}));

}  // namespace
}  // namespace byteps::device
