// A worker that trains nothing: the layers of a model as waits, their gradients as exchanges, in
// the host's memory or in that of an emulated GPU (tests/cuda_standin). It does with a stream what
// emulated_worker.py does with waits.
//
//   bench_device_step host
//   bench_device_step device GB_PER_SECOND        of each direction of the GPU's link
//
// Reads "run CASE STEPS @FILE" from stdin; the file has a line "NAME ELEMENTS FORWARD_US
// BACKWARD_US" for each layer. Every run ends with a line of JSON. Started by lab.py, row 33.
#include <cuda.h>
#include <dlfcn.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "byteps/device.h"
#include "tests/cuda_standin/standin.h"

namespace {

using Clock = std::chrono::steady_clock;
using Micro = std::chrono::duration<double, std::micro>;

// A wait for the time may take so much longer. Waits for gradients count in full beyond it.
constexpr std::chrono::microseconds kLongerWait{300};

[[noreturn]] void Die(const std::string& text) {
  std::fprintf(stderr, "bench_device_step: %s\n", text.c_str());
  std::exit(1);
}

void Check(byteps_code code, const byteps_error& error) {
  if (code != BYTEPS_OK) Die(error.message);
}

void Check(CUresult code) {
  if (code != CUDA_SUCCESS) Die("the stand-in for the driver says " + std::to_string(code));
}

int64_t NowNs() { return Clock::now().time_since_epoch().count(); }

double CpuSeconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  auto seconds_of = [](const timeval& one) {
    return static_cast<double>(one.tv_sec) + 1e-6 * static_cast<double>(one.tv_usec);
  };
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

// Computes by waiting until the moment at which the computation would be over.
class Computing {
 public:
  void For(Micro time) {
    over_ = std::max(over_, Clock::now() - kLongerWait) +
            std::chrono::duration_cast<Clock::duration>(time);
    std::this_thread::sleep_until(over_);  // tidy-allow(sleep): it stands for a computation
  }

 private:
  Clock::time_point over_ = Clock::now();
};

struct Layer {
  std::string name;
  int64_t elements = 0;
  Micro forward{};
  Micro backward{};
  std::vector<float> on_host;
  CUdeviceptr on_device = 0;
  byteps_handle handle = 0;

  float* values() {
    if (on_device == 0) return on_host.data();
    return reinterpret_cast<float*>(stand_in_bytes(on_device));
  }
};

class Worker {
 public:
  Worker(byteps_session* session, bool on_device)
      : session_(session),
        on_device_(on_device),
        rank_(byteps_rank(session)),
        size_(byteps_size(session)) {
    if (!on_device) return;
    Check(cuInit(0));
    CUcontext context = nullptr;
    Check(cuDevicePrimaryCtxRetain(&context, 0));
    Check(cuCtxSetCurrent(context));
    Check(cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0));
  }
  ~Worker() {
    if (stream_ != nullptr) (void)cuStreamDestroy_v2(stream_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // From the end of a backward pass to the end of the last one: whole steps, none of them cold.
  void Run(const std::string& name, int steps, std::vector<Layer>& layers) {
    Step(layers);
    const stand_in_counts before = stand_in_count();
    double cpu = CpuSeconds();
    const int64_t begin = NowNs();
    for (int i = 0; i < steps; ++i) Step(layers);
    const int64_t end = NowNs();
    cpu = CpuSeconds() - cpu;
    for (Layer& layer : layers) Receive(layer);
    const stand_in_counts after = stand_in_count();
    const double seconds = 1e-9 * static_cast<double>(end - begin);
    std::printf(
        "{\"case\": \"%s\", \"rank\": %d, \"size\": %d, \"iterations\": %d, \"seconds\": %.6f, "
        "\"cpu_seconds\": %.6f, \"begin_ns\": %lld, \"end_ns\": %lld, \"wrong\": %llu, "
        "\"copies\": %.1f, \"pageable_copies\": %llu}\n",
        name.c_str(), rank_, size_, steps, seconds / steps, cpu / steps,
        static_cast<long long>(begin), static_cast<long long>(end),
        static_cast<unsigned long long>(Wrong(layers)),
        static_cast<double>(after.copies - before.copies) / steps,
        static_cast<unsigned long long>(after.pageable_copies));
    std::fflush(stdout);
  }

  std::vector<Layer> ReadLayers(const std::string& file) const {
    std::ifstream in(file);
    std::vector<Layer> layers;
    std::string line;
    while (std::getline(in, line)) {
      std::istringstream words(line);
      Layer layer;
      double forward = 0;
      double backward = 0;
      words >> layer.name >> layer.elements >> forward >> backward;
      layer.forward = Micro(forward);
      layer.backward = Micro(backward);
      if (on_device_) {
        const size_t bytes = static_cast<size_t>(layer.elements) * sizeof(float);
        Check(cuMemAlloc_v2(&layer.on_device, bytes));
      } else {
        layer.on_host.resize(static_cast<size_t>(layer.elements));
      }
      layers.push_back(std::move(layer));
    }
    if (layers.empty()) Die("no layers in " + file);
    return layers;
  }

 private:
  // Gives the GPU a computation, or carries it out. `writes`: the layer whose gradient it makes.
  void Compute(Micro time, Layer* writes) {
    struct Kernel {
      Worker* worker;
      Micro time;
      Layer* writes;
      void Run() const {
        if (writes != nullptr) {
          std::fill_n(writes->values(), writes->elements, static_cast<float>(worker->rank_ + 1));
        }
        worker->computing_.For(time);
      }
    };
    const Kernel kernel{this, time, writes};
    if (!on_device_) return kernel.Run();
    auto run = [](void* context) {
      const std::unique_ptr<Kernel> own(static_cast<Kernel*>(context));
      own->Run();
    };
    stand_in_kernel(stream_, run, std::make_unique<Kernel>(kernel).release());
  }

  void Send(Layer& layer, int number) {
    const int64_t shape[] = {layer.elements};
    byteps_request request{};
    request.name = layer.name.c_str();
    request.op = BYTEPS_SUM;
    request.dtype = BYTEPS_FLOAT32;
    request.shape = shape;
    request.dimensions = 1;
    request.priority = -number;
    if (on_device_) {
      request.memory = BYTEPS_MEMORY_DEVICE;
      request.input = request.output = reinterpret_cast<void*>(layer.on_device);
      request.stream = stream_;
    } else {
      request.input = request.output = layer.on_host.data();
    }
    byteps_error error{};
    Check(byteps_start(session_, &request, &layer.handle, &error), error);
  }

  void Receive(Layer& layer) {
    if (layer.handle == 0) return;
    byteps_error error{};
    Check(byteps_wait(session_, layer.handle, -1, &error), error);
    byteps_release(session_, layer.handle);
    layer.handle = 0;
  }

  void Step(std::vector<Layer>& layers) {
    for (Layer& layer : layers) {
      Receive(layer);
      Compute(layer.forward, nullptr);
    }
    for (int number = static_cast<int>(layers.size()) - 1; number >= 0; --number) {
      Layer& layer = layers[static_cast<size_t>(number)];
      Compute(layer.backward, &layer);
      Send(layer, number);
    }
    if (on_device_) Check(cuStreamSynchronize(stream_));
  }

  uint64_t Wrong(std::vector<Layer>& layers) const {
    const auto expected = static_cast<float>(size_ * (size_ + 1) / 2);
    uint64_t wrong = 0;
    for (Layer& layer : layers) {
      for (int64_t i = 0; i < layer.elements; i += 997) {
        wrong += layer.values()[i] == expected ? 0 : 1;
      }
    }
    return wrong;
  }

  byteps_session* const session_;
  const bool on_device_;
  const int32_t rank_;
  const int32_t size_;
  CUstream stream_ = nullptr;
  Computing computing_;
};

}  // namespace

int main(int count, char** arguments) {
  const std::string where = count > 1 ? arguments[1] : "";
  const bool on_device = where == "device";
  if (!(where == "host" && count == 2) && !(on_device && count == 3)) {
    std::fprintf(stderr, "bench_device_step host | device GB_PER_SECOND\n");
    return 2;
  }
  if (on_device) stand_in_rate(1e9 * std::atof(arguments[2]));
  Dl_info stand_in{};
  dladdr(reinterpret_cast<void*>(&stand_in_rate), &stand_in);
  const std::string library = std::string("cuda_library=") + stand_in.dli_fname;
  const char* const settings[] = {library.c_str()};
  byteps_session* session = nullptr;
  byteps_error error{};
  Check(byteps_open(settings, 1, &session, &error), error);
  {
    Worker worker(session, on_device);
    std::map<std::string, std::vector<Layer>> cases;
    std::string line;
    while (std::getline(std::cin, line)) {
      std::istringstream words(line);
      std::string run;
      std::string name;
      std::string file;
      int steps = 0;
      words >> run >> name >> steps >> file;
      if (run != "run" || steps <= 0 || file.empty()) Die("not a command: " + line);
      auto& layers = cases[name];
      if (layers.empty()) layers = worker.ReadLayers(file.substr(1));
      worker.Run(name, steps, layers);
    }
  }
  byteps_close(session);
  return 0;
}
