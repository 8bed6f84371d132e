// Two ranks of a machine, with emulated GPUs behind one emulated link to the CPU, which sum tensors
// in device memory: through the window, or among the GPUs first. device_ways.py starts two of them.
//
//   bench_device_ways FIRST_RANK GPU_MB_PER_SECOND LINK_MB_PER_SECOND PEERS
//
// PEERS: "nvlink" if all GPUs of the machine reach each other by NVLink, or "pci" if those behind
// one link reach each other. The environment has the rest of the job. Reads commands from stdin and
// answers each with a line of JSON: "forecast SERVERS" with what the plan of the job would take,
// "run CASE STEPS BYTES" with times.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "byteps/device.h"
#include "src/plan/device_sums.h"
#include "tests/cuda_standin/nvml_standin.h"
#include "tests/cuda_standin/standin.h"
#include "tests/nccl_standin/standin.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRanks = 4;
constexpr int kRanksOfProcess = STAND_IN_DEVICES;  // those behind one link
constexpr int kTensors = 8;                        // of a step
// What NVML says of a pair of GPUs.
constexpr int kReached = 0;
constexpr int kNotReached = 5;

[[noreturn]] void Die(const std::string& text) {
  std::fprintf(stderr, "bench_device_ways: %s\n", text.c_str());
  std::exit(1);
}

void Check(byteps_code code, const byteps_error& error) {
  if (code != BYTEPS_OK) Die(error.message);
}

void Check(CUresult code) {
  if (code != CUDA_SUCCESS) Die("the stand-in for the driver says " + std::to_string(code));
}

template <typename Function>
std::string LibraryOf(Function* function) {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(function), &info);
  return info.dli_fname;
}

struct Rates {
  double gpu = 0;   // of each GPU's link, in each direction, in bytes a second
  double link = 0;  // of the link that the GPUs of this process share
  bool is_nvlink = false;
};

// Returns what the machine's plan would take, in seconds for each byte, and what `auto` takes.
std::string ForecastOf(const Rates& rates, bool has_servers) {
  namespace plan = byteps::plan;
  plan::DeviceMachine machine;
  machine.memory_bytes_s = 1e15;  // the bench is about links
  machine.network_bytes_s = has_servers ? 1e15 : 0;
  machine.has_servers = has_servers;
  machine.links.assign(kRanks / kRanksOfProcess, plan::HostLink{rates.link, 0});
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    machine.ranks.push_back(
        {"gpu " + std::to_string(rank), false, rank / kRanksOfProcess, rates.gpu});
  }
  for (uint32_t one = 0; one < kRanks; ++one) {
    for (uint32_t other = 0; other < kRanks; ++other) {
      const bool is_near = machine.ranks[one].link == machine.ranks[other].link;
      const plan::PeerAccess far =
          rates.is_nvlink ? plan::PeerAccess::kNvlink : plan::PeerAccess::kNone;
      machine.peers.push_back(!rates.is_nvlink && is_near ? plan::PeerAccess::kPci : far);
    }
  }
  const plan::DeviceSums best = plan::PlanDeviceSums(machine, {});
  const plan::DeviceSums groups =
      plan::PlanDeviceSums(machine, {.way = plan::DeviceSumsWish::kNccl});
  double nccl = groups.loads.seconds;
  if (rates.is_nvlink) {
    // The plan has no rate of NVLink. Here a ring of all GPUs takes their own links, beside what a
    // home copies to the host and back.
    const double ring = 2.0 * (kRanks - 1) / kRanks + (has_servers ? 1.0 / kRanks : 0);
    nccl = std::max(nccl, ring / rates.gpu);
  }
  std::ostringstream json;
  json << "{\"window\": " << groups.window.seconds << ", \"nccl\": " << nccl << ", \"auto\": \""
       << (best.way == plan::DeviceWay::kWindow ? "window" : "nccl") << "\"}";
  return json.str();
}

// A rank with its tensors. Belongs to one thread.
class Rank {
 public:
  Rank(int local_rank, int device) : device_(device) {
    Check(cuInit(0));
    CUcontext context = nullptr;
    Check(cuDevicePrimaryCtxRetain(&context, device));
    Check(cuCtxSetCurrent(context));
    const std::vector<std::string> settings = {
        "local_rank=" + std::to_string(local_rank), "cuda_library=" + LibraryOf(&stand_in_rate),
        "nvml_library=" + LibraryOf(&stand_in_nvml_reset),
        "nccl_library=" + LibraryOf(&nccl_stand_in_reset),
        "pcie_switch_size=" + std::to_string(kRanksOfProcess)};
    std::vector<const char*> texts;
    for (const std::string& one : settings) texts.push_back(one.c_str());
    byteps_error error{};
    Check(byteps_open(texts.data(), texts.size(), &session_, &error), error);
  }
  ~Rank() {
    byteps_close(session_);
    (void)cuDevicePrimaryCtxRelease_v2(device_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  // Makes tensors of whole numbers, so that their sums are exact in every order.
  void Prepare(int64_t floats) {
    floats_ = floats;
    for (std::vector<CUdeviceptr>* all : {&tensors_, &sums_}) {
      all->assign(kTensors, 0);
      for (CUdeviceptr& one : *all) {
        Check(cuMemAlloc_v2(&one, static_cast<size_t>(floats) * sizeof(float)));
      }
    }
    for (CUdeviceptr one : tensors_) {
      std::fill_n(ValuesOf(one), floats, static_cast<float>(byteps_rank(session_) + 1));
    }
  }
  // Frees what Prepare has made.
  void Clear() {
    for (std::vector<CUdeviceptr>* all : {&tensors_, &sums_}) {
      for (CUdeviceptr one : *all) (void)cuMemFree_v2(one);
      all->clear();
    }
  }
  // Sums the tensors into other ones, so each step sums the same.
  void Step() {
    std::vector<byteps_handle> handles(kTensors, 0);
    byteps_error error{};
    for (size_t i = 0; i < kTensors; ++i) {
      const std::string name = "w" + std::to_string(i);
      byteps_request request{};
      request.name = name.c_str();
      request.op = BYTEPS_SUM;
      request.dtype = BYTEPS_FLOAT32;
      request.shape = &floats_;
      request.dimensions = 1;
      request.memory = BYTEPS_MEMORY_DEVICE;
      request.device = device_;
      request.input = reinterpret_cast<void*>(tensors_[i]);
      request.output = reinterpret_cast<void*>(sums_[i]);
      request.stream = BYTEPS_NO_STREAM;
      Check(byteps_start(session_, &request, &handles[i], &error), error);
    }
    for (byteps_handle handle : handles) {
      Check(byteps_wait(session_, handle, -1, &error), error);
      byteps_release(session_, handle);
    }
  }
  uint64_t Wrong() const {
    const auto expected = static_cast<float>(kRanks * (kRanks + 1) / 2);
    uint64_t wrong = 0;
    for (CUdeviceptr one : sums_) {
      const float* const values = ValuesOf(one);
      for (int64_t i = 0; i < floats_; ++i) wrong += values[i] == expected ? 0 : 1;
    }
    return wrong;
  }

 private:
  static float* ValuesOf(CUdeviceptr tensor) {
    return reinterpret_cast<float*>(stand_in_bytes(tensor));
  }

  const int device_;
  byteps_session* session_ = nullptr;
  int64_t floats_ = 0;
  std::vector<CUdeviceptr> tensors_;
  std::vector<CUdeviceptr> sums_;
};

struct Command {
  std::string what;  // "" at the end of the input
  std::string name;
  int steps = 0;
  int64_t floats = 0;
};

// Answers with the times of all ranks of this process, which begin together.
void Answer(const Command& command, Clock::duration took, uint64_t wrong) {
  const auto end = Clock::now().time_since_epoch().count();
  const std::chrono::duration<double> seconds(took);
  std::printf(
      "{\"case\": \"%s\", \"seconds\": %.6f, \"cpu_seconds\": 0, \"begin_ns\": %lld, "
      "\"end_ns\": %lld, \"wrong\": %llu, \"collectives\": %llu}\n",
      command.name.c_str(), seconds.count() / command.steps,
      static_cast<long long>(end - took.count()), static_cast<long long>(end),
      static_cast<unsigned long long>(wrong),
      static_cast<unsigned long long>(nccl_stand_in_count().collectives));
  std::fflush(stdout);
}

Command NextCommand(const Rates& rates) {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    Command command;
    words >> command.what;
    if (command.what == "forecast") {
      int has_servers = 0;
      words >> has_servers;
      std::printf("%s\n", ForecastOf(rates, has_servers != 0).c_str());
      std::fflush(stdout);
      continue;
    }
    int64_t bytes = 0;
    words >> command.name >> command.steps >> bytes;
    command.floats = bytes / kTensors / static_cast<int64_t>(sizeof(float));
    if (command.what != "run" || command.steps <= 0 || command.floats <= 0) {
      Die("not a command: " + line);
    }
    return command;
  }
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    std::fprintf(stderr,
                 "bench_device_ways FIRST_RANK GPU_MB_PER_SECOND LINK_MB_PER_SECOND nvlink|pci\n");
    return 2;
  }
  const int first = std::atoi(arguments[1]);
  const Rates rates{1e6 * std::atof(arguments[2]), 1e6 * std::atof(arguments[3]),
                    std::string(arguments[4]) == "nvlink"};
  stand_in_rate(rates.gpu);
  stand_in_shared_rate(rates.link);
  stand_in_first_gpu(first);
  stand_in_nvml_machine(kRanks, kReached, rates.is_nvlink ? kReached : kNotReached);

  Command command;
  Clock::time_point begun;
  std::vector<uint64_t> wrong(kRanksOfProcess, 0);
  std::barrier together(kRanksOfProcess);
  auto run = [&](int number) {
    Rank rank(first + number, number);
    for (;;) {
      if (number == 0) command = NextCommand(rates);
      together.arrive_and_wait();
      if (command.what.empty()) return;
      rank.Prepare(command.floats);
      rank.Step();  // a cold one, by which the ranks of all processes begin together, too
      together.arrive_and_wait();
      if (number == 0) begun = Clock::now();
      for (int i = 0; i < command.steps; ++i) rank.Step();
      const Clock::duration took = Clock::now() - begun;
      wrong[static_cast<size_t>(number)] = rank.Wrong();
      rank.Clear();
      together.arrive_and_wait();
      uint64_t all = 0;
      for (uint64_t one : wrong) all += one;
      if (number == 0) Answer(command, took, all);
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  return 0;
}
