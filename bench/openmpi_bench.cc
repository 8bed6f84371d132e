// Measures MPI_Allreduce beside bench_push_pull: the same cases, one tensor each. mpirun hands
// stdin to rank 0 alone, so rank 0 reads "run CASE ITERATIONS BYTES" and answers for all ranks:
// from the first begin to the last end, with the CPU seconds of all. Built if CMake finds MPI.
// Started by lab.py.
#include <mpi.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

int64_t NowNs() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The same values as in bench_push_pull: small integers, so every order gives the same bits.
struct Tensor {
  std::vector<float> input;
  std::vector<float> output;
};

Tensor MakeTensor(size_t elements, int rank) {
  Tensor tensor{std::vector<float>(elements), std::vector<float>(elements)};
  for (size_t i = 0; i < elements; ++i) {
    tensor.input[i] = static_cast<float>(i % 1021) + static_cast<float>(rank + 1);
  }
  return tensor;
}

uint64_t CountWrong(const Tensor& tensor, int size) {
  uint64_t wrong = 0;
  const auto ranks = static_cast<float>(size);
  for (size_t i = 0; i < tensor.output.size(); ++i) {
    wrong += tensor.output[i] != ranks * static_cast<float>(i % 1021) + ranks * (ranks + 1) / 2;
  }
  return wrong;
}

// Runs a case. Every rank calls it with the same arguments; rank 0 prints.
void Run(Tensor& tensor, const std::string& name, int iterations) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Barrier(MPI_COMM_WORLD);
  double cpu = -CpuSeconds();
  int64_t begin = NowNs();
  for (int i = 0; i < iterations; ++i) {
    MPI_Allreduce(tensor.input.data(), tensor.output.data(), static_cast<int>(tensor.input.size()),
                  MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  int64_t end = NowNs();
  cpu += CpuSeconds();
  uint64_t wrong = CountWrong(tensor, size);
  // All processes of a machine have the same clock, and the lab is one machine.
  auto combine = [rank](auto& value, MPI_Datatype type, MPI_Op how) {
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : &value, &value, 1, type, how, 0, MPI_COMM_WORLD);
  };
  combine(begin, MPI_INT64_T, MPI_MIN);
  combine(end, MPI_INT64_T, MPI_MAX);
  combine(cpu, MPI_DOUBLE, MPI_SUM);
  combine(wrong, MPI_UINT64_T, MPI_SUM);
  if (rank != 0) return;
  std::printf(
      "{\"case\": \"%s\", \"rank\": 0, \"size\": %d, \"bytes\": %llu, \"iterations\": %d, "
      "\"seconds\": %.9f, \"cpu_seconds\": %.6f, \"begin_ns\": %lld, \"end_ns\": %lld, "
      "\"wrong\": %llu}\n",
      name.c_str(), size, static_cast<unsigned long long>(tensor.input.size() * sizeof(float)),
      iterations, static_cast<double>(end - begin) * 1e-9 / iterations, cpu / iterations,
      static_cast<long long>(begin), static_cast<long long>(end),
      static_cast<unsigned long long>(wrong));
  std::fflush(stdout);
}

struct Command {
  std::string name;
  uint64_t iterations = 0;  // 0: the end of input
  uint64_t elements = 0;
};

Command ReadCommand() {
  Command command;
  std::string line;
  if (!std::getline(std::cin, line)) return command;
  std::istringstream words(line);
  std::string verb;
  uint64_t bytes = 0;
  if (!(words >> verb >> command.name >> command.iterations >> bytes) || verb != "run") {
    std::fprintf(stderr, "bench_openmpi: unknown command: %s\n", line.c_str());
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  command.elements = bytes / sizeof(float);
  return command;
}

// Sends numbers from rank 0 to all ranks. The others look every 2 ms: a plain MPI_Bcast would keep
// a core busy for each of them, and slow down the other rivals that the lab measures in turn with
// this.
void Spread(uint64_t* numbers, int count) {
  MPI_Request request;
  MPI_Ibcast(numbers, count, MPI_UINT64_T, 0, MPI_COMM_WORLD, &request);
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) return;
    poll(nullptr, 0, 2);
  }
}

void FollowCommands() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::map<uint64_t, Tensor> tensors;
  for (;;) {
    Command command;
    if (rank == 0) command = ReadCommand();
    uint64_t numbers[] = {command.iterations, command.elements};
    Spread(numbers, 2);
    const auto [iterations, elements] = numbers;
    if (iterations == 0) return;
    auto place = tensors.find(elements);
    if (place == tensors.end()) {
      place = tensors.emplace(elements, MakeTensor(elements, rank)).first;
    }
    Tensor& tensor = place->second;
    std::fill(tensor.output.begin(), tensor.output.end(), -1.0F);
    Run(tensor, command.name, static_cast<int>(iterations));
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  FollowCommands();
  MPI_Finalize();
  return 0;
}
