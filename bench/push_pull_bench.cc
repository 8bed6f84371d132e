// Measures push_pull in the job that the environment names. One process is one worker; the caller
// starts the servers and the scheduler (bench/core.py, bench/lab.py, or by hand).
//
//   bench_push_pull --sizes 4096,1048576 --repeats 7
//   bench_push_pull --shapes FILE        one case of many tensors, a line "NAME ELEMENTS" each
//   bench_push_pull --commands           lines on stdin: "run CASE ITERATIONS BYTES[,BYTES...]"
//                                        or "run CASE ITERATIONS @FILE"; the end of input ends it
//
// Tensors are float32; "bfloat16:BYTES[,BYTES...]" makes them bfloat16.
//
// A case is a step: all its tensors are started at once, and it is over when all are complete.
// Every run begins with a barrier and ends with a line of JSON. Begin and end are readings of the
// machine's steady clock, so that readings of several processes can be compared. The program checks
// results bit for bit outside of the timed part: the values are small integers, so sums are exact.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "byteps/byteps.h"

namespace {

constexpr int kUsageError = 2;

struct Tensor {
  std::string name;
  size_t elements = 0;
  std::vector<std::byte> input;
  std::vector<std::byte> output;
};

// The elements of a case. Values are small integers, whose sums are exact in the type.
struct Kind {
  byteps_dtype dtype = BYTEPS_FLOAT32;
  size_t bytes = sizeof(float);
  size_t period = 1021;
};
constexpr Kind kFloat32{};
constexpr Kind kBfloat16{BYTEPS_BFLOAT16, 2, 13};

struct Case {
  Kind kind;
  std::vector<Tensor> tensors;
  uint64_t bytes = 0;
};

struct Run {
  double seconds = 0;  // of one iteration
  double p50_us = 0;   // of the iterations
  double p99_us = 0;
  double cpu_seconds = 0;  // of one iteration, this process
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint64_t wrong = 0;  // elements
};

[[noreturn]] void Die(const std::string& text) {
  std::fprintf(stderr, "bench_push_pull: %s\n", text.c_str());
  std::exit(1);
}

void Check(byteps_code code, const byteps_error& error) {
  if (code != BYTEPS_OK) Die(error.message);
}

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

// The pattern is the same on all ranks. InputAt returns what `rank` contributes at element `i`,
// SumAt what all ranks contribute together.
float Pattern(const Kind& kind, size_t tensor, size_t i) {
  return static_cast<float>((i + 7 * tensor) % kind.period);
}
float InputAt(const Kind& kind, size_t tensor, size_t i, int rank) {
  return Pattern(kind, tensor, i) + static_cast<float>(rank + 1);
}
float SumAt(const Kind& kind, size_t tensor, size_t i, int size) {
  return static_cast<float>(size) * Pattern(kind, tensor, i) +
         static_cast<float>(size) * static_cast<float>(size + 1) / 2;
}

// Returns the bytes of a value. A bfloat16 is the upper half of a float, on machines whose low
// bytes come first.
const std::byte* BytesOf(const Kind& kind, const float& value) {
  return reinterpret_cast<const std::byte*>(&value) + sizeof(float) - kind.bytes;
}

std::vector<std::pair<std::string, size_t>> ReadShapes(const std::string& path) {
  std::ifstream file(path);
  if (!file) Die("cannot read " + path);
  std::vector<std::pair<std::string, size_t>> list;
  std::string name;
  for (size_t elements = 0; file >> name >> elements;) list.emplace_back(name, elements);
  if (list.empty() || !file.eof()) Die(path + ": want lines of \"NAME ELEMENTS\"");
  return list;
}

constexpr std::string_view kBfloat16Prefix = "bfloat16:";

// Parses "[bfloat16:]BYTES[,BYTES...]" or "@FILE".
std::vector<std::pair<std::string, size_t>> ParseTensors(const std::string& text, size_t unit) {
  if (text.starts_with("@")) return ReadShapes(text.substr(1));
  std::vector<std::pair<std::string, size_t>> list;
  std::istringstream parts(text.starts_with(kBfloat16Prefix) ? text.substr(kBfloat16Prefix.size())
                                                             : text);
  for (std::string part; std::getline(parts, part, ',');) {
    const unsigned long long bytes = std::strtoull(part.c_str(), nullptr, 10);
    if (bytes == 0 || bytes % unit != 0) Die("'" + part + "' are no whole elements");
    list.emplace_back(std::to_string(list.size()), bytes / unit);
  }
  return list;
}

class Bench {
 public:
  Bench() {
    byteps_error error{};
    Check(byteps_open(nullptr, 0, &session_, &error), error);
  }
  ~Bench() { byteps_close(session_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void AddCase(const std::string& name, const std::string& text);
  bool Knows(const std::string& name) const { return cases_.contains(name); }
  // Runs a case and prints its line.
  void RunAndPrint(const std::string& name, int iterations);

 private:
  Run RunCase(Case& work, int iterations);
  void Barrier();
  void Step(Case& work);
  uint64_t CountWrong(const Case& work) const;

  byteps_session* session_ = nullptr;
  std::map<std::string, Case> cases_;
  std::vector<byteps_handle> handles_;
};

void Bench::AddCase(const std::string& name, const std::string& text) {
  Case& work = cases_[name];
  work.kind = text.starts_with(kBfloat16Prefix) ? kBfloat16 : kFloat32;
  const Kind& kind = work.kind;
  for (const auto& [tensor_name, elements] : ParseTensors(text, kind.bytes)) {
    const size_t index = work.tensors.size();
    Tensor tensor{name + "/" + tensor_name, elements, std::vector<std::byte>(elements * kind.bytes),
                  std::vector<std::byte>(elements * kind.bytes)};
    for (size_t i = 0; i < elements; ++i) {
      const float value = InputAt(kind, index, i, byteps_rank(session_));
      std::memcpy(&tensor.input[i * kind.bytes], BytesOf(kind, value), kind.bytes);
    }
    work.bytes += tensor.input.size();
    work.tensors.push_back(std::move(tensor));
  }
}

void Bench::Barrier() {
  byteps_request request{};
  request.name = "bench/barrier";
  request.op = BYTEPS_BARRIER;
  byteps_handle handle = 0;
  byteps_error error{};
  Check(byteps_start(session_, &request, &handle, &error), error);
  Check(byteps_wait(session_, handle, -1, &error), error);
  byteps_release(session_, handle);
}

// Starts the tensors as in a backward pass: the last layer's gradient is there first, and the first
// layer's gradient is the most urgent one.
void Bench::Step(Case& work) {
  byteps_error error{};
  handles_.clear();
  for (size_t i = work.tensors.size(); i-- > 0;) {
    Tensor& tensor = work.tensors[i];
    const int64_t elements = static_cast<int64_t>(tensor.elements);
    byteps_request request{};
    request.name = tensor.name.c_str();
    request.op = BYTEPS_SUM;
    request.dtype = work.kind.dtype;
    request.shape = &elements;
    request.dimensions = 1;
    request.input = tensor.input.data();
    request.output = tensor.output.data();
    request.priority = -static_cast<int32_t>(i);
    handles_.emplace_back();
    Check(byteps_start(session_, &request, &handles_.back(), &error), error);
  }
  for (const byteps_handle handle : handles_) {
    Check(byteps_wait(session_, handle, -1, &error), error);
    byteps_release(session_, handle);
  }
}

uint64_t Bench::CountWrong(const Case& work) const {
  uint64_t wrong = 0;
  for (size_t index = 0; index < work.tensors.size(); ++index) {
    const Tensor& tensor = work.tensors[index];
    const Kind& kind = work.kind;
    for (size_t i = 0; i < tensor.elements; ++i) {
      const float expected = SumAt(kind, index, i, byteps_size(session_));
      const std::byte* at = &tensor.output[i * kind.bytes];
      wrong += std::memcmp(at, BytesOf(kind, expected), kind.bytes) != 0;
    }
  }
  return wrong;
}

Run Bench::RunCase(Case& work, int iterations) {
  for (Tensor& tensor : work.tensors) {
    std::fill(tensor.output.begin(), tensor.output.end(), std::byte{0xff});  // a NaN
  }
  Barrier();
  Run run;
  const double cpu_before = CpuSeconds();
  run.begin_ns = NowNs();
  std::vector<double> steps(static_cast<size_t>(iterations));
  run.end_ns = run.begin_ns;
  for (double& step : steps) {
    const int64_t begin = run.end_ns;
    Step(work);
    run.end_ns = NowNs();
    step = static_cast<double>(run.end_ns - begin) * 1e-3;
  }
  run.cpu_seconds = (CpuSeconds() - cpu_before) / iterations;
  run.seconds = static_cast<double>(run.end_ns - run.begin_ns) * 1e-9 / iterations;
  std::sort(steps.begin(), steps.end());
  run.p50_us = steps[steps.size() / 2];
  run.p99_us = steps[steps.size() * 99 / 100];
  run.wrong = CountWrong(work);
  return run;
}

void Bench::RunAndPrint(const std::string& name, int iterations) {
  Case& work = cases_.at(name);
  const Run run = RunCase(work, iterations);
  std::printf(
      "{\"case\": \"%s\", \"rank\": %d, \"size\": %d, \"bytes\": %llu, "
      "\"iterations\": %d, \"seconds\": %.9f, \"cpu_seconds\": %.6f, "
      "\"p50_us\": %.3f, \"p99_us\": %.3f, "
      "\"begin_ns\": %lld, \"end_ns\": %lld, \"wrong\": %llu}\n",
      name.c_str(), byteps_rank(session_), byteps_size(session_),
      static_cast<unsigned long long>(work.bytes), iterations, run.seconds, run.cpu_seconds,
      run.p50_us, run.p99_us, static_cast<long long>(run.begin_ns),
      static_cast<long long>(run.end_ns), static_cast<unsigned long long>(run.wrong));
  std::fflush(stdout);
  if (run.wrong != 0) Die("case " + name + ": " + std::to_string(run.wrong) + " wrong elements");
}

int FollowCommands(Bench& bench) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    std::string name;
    int iterations = 0;
    std::string tensors;
    words >> verb >> name >> iterations >> tensors;
    if (verb != "run" || iterations < 1) Die("unknown command: " + line);
    if (!bench.Knows(name)) bench.AddCase(name, tensors);
    bench.RunAndPrint(name, iterations);
  }
  return 0;
}

struct Arguments {
  bool commands = false;
  std::vector<std::string> cases;
  int repeats = 7;
  int warmup = 1;
};

Arguments ParseArguments(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string flag = values[i];
    const std::string value = i + 1 < count ? values[i + 1] : "";
    if (flag == "--commands") {
      arguments.commands = true;
      continue;
    }
    std::istringstream parts(value);
    if (flag == "--sizes") {
      for (std::string part; std::getline(parts, part, ',');) arguments.cases.push_back(part);
    } else if (flag == "--shapes") {
      arguments.cases.push_back("@" + value);
    } else if (flag == "--repeats") {
      arguments.repeats = std::atoi(value.c_str());
    } else if (flag == "--warmup") {
      arguments.warmup = std::atoi(value.c_str());
    } else {
      std::fprintf(stderr,
                   "usage: bench_push_pull --commands | --sizes BYTES,... | --shapes FILE "
                   "[--repeats N] [--warmup N]\n");
      std::exit(kUsageError);
    }
    ++i;
  }
  return arguments;
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = ParseArguments(count, values);
  Bench bench;
  if (arguments.commands) return FollowCommands(bench);
  for (const std::string& name : arguments.cases) bench.AddCase(name, name);
  for (int repeat = -arguments.warmup; repeat < arguments.repeats; ++repeat) {
    for (const std::string& name : arguments.cases) bench.RunAndPrint(name, 1);
  }
  return 0;
}
