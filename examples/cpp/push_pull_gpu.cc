// The program of ../c/push_pull_gpu.c in C++: a request names the memory of a GPU and the stream
// that writes it.
//
//   bps run -np 2 push_pull_gpu
#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <stdexcept>

#include "byteps/byteps.hpp"
#include "byteps/device.h"

namespace {

constexpr int64_t kCount = 1 << 20;

void Check(CUresult result) {
  if (result != CUDA_SUCCESS) throw std::runtime_error("CUDA error " + std::to_string(result));
}

// The GPU of this rank, with its context current, and a stream.
class Gpu {
 public:
  explicit Gpu(int number) : number_(number) {
    Check(cuDevicePrimaryCtxRetain(&context_, number));
    Check(cuCtxSetCurrent(context_));
    Check(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  }
  ~Gpu() {
    cuStreamDestroy(stream_);
    cuDevicePrimaryCtxRelease(number_);
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  int number() const { return number_; }
  CUstream stream() const { return stream_; }

 private:
  const int number_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
};

// Sums `gradient` over all ranks, behind what the GPU's stream has to do.
byteps::Handle StartSum(byteps::Session& session, const Gpu& gpu, CUdeviceptr gradient) {
  byteps_request request{};
  request.name = "gradient";
  request.op = BYTEPS_SUM;
  request.dtype = BYTEPS_INT32;
  request.shape = &kCount;
  request.dimensions = 1;
  request.input = request.output = reinterpret_cast<void*>(gradient);
  request.memory = BYTEPS_MEMORY_DEVICE;
  request.device = gpu.number();
  request.stream = gpu.stream();
  return session.Start(request);
}

// Returns how many GPUs there are; throws why there is none.
int CountGpus() {
  byteps_device_info info{};
  byteps_error error{};
  const byteps_code code = byteps_get_device_info(nullptr, 0, 0, &info, &error);
  if (code != BYTEPS_OK) throw byteps::Error(error);
  return info.count;
}

}  // namespace

int main() {
  try {
    byteps::Session session;
    // Each rank of a machine takes a GPU of its own, as far as there are some.
    const Gpu gpu(session.LocalRank() % CountGpus());
    CUdeviceptr gradient = 0;
    Check(cuMemAlloc(&gradient, kCount * sizeof(int32_t)));
    // Rank r contributes r+1 everywhere. In place of this, a program launches its kernels.
    Check(cuMemsetD32Async(gradient, static_cast<unsigned>(session.Rank()) + 1, kCount,
                           gpu.stream()));
    StartSum(session, gpu, gradient).Wait();
    int32_t sum = 0;
    Check(cuMemcpyDtoH(&sum, gradient, sizeof(sum)));
    std::printf("rank %d of %d: sum %d\n", session.Rank(), session.Size(), sum);
    cuMemFree(gradient);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "push_pull_gpu: %s\n", error.what());
    return 1;
  }
}
