// Measures the sum of tensors among processes of one machine, through the window, beside what
// memory allows.
//
//   bench_window [--ranks 4] [--bytes N] [--rounds 9] [--blocks 4] [--block-bytes N]
//
// Forks the ranks. Each round measures, one after the other:
//   * the bare pair: every rank sums its share of all inputs, which lie in shared memory, in one
//     pass, and copies the whole result to memory of its own
//   * its first half, the pass
//   * the window, from private memory to private memory
//   * the same as an operation of a job without servers
//   * that operation from a shared tensor to a shared tensor
// Prints one line of JSON: medians in microseconds of the slowest rank, and of the processor time
// of all ranks together.
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/kernels/kernels.h"
#include "src/local/reducer_for_test.h"
#include "src/local/shared_memory.h"
#include "src/local/window.h"
#include "src/machine/serverless/local_engine.h"

namespace {

namespace kernels = byteps::kernels;
namespace local = byteps::local;
namespace machine = byteps::machine;
using byteps::Combine;
using byteps::DataType;
using byteps::Duration;
using byteps::Result;
using byteps::Status;
using byteps::Time;
using Clock = std::chrono::steady_clock;

constexpr Duration kLimit = std::chrono::seconds(60);

struct Settings {
  uint32_t ranks = 4;
  size_t bytes = 100'000'000;
  int rounds = 9;
  std::string job = "bench_window " + std::to_string(getpid());
  local::WindowShape shape;
};

enum Kind : uint8_t { kBare, kPass, kWindow, kJob, kSharedJob, kKinds };

// The times of all ranks, which each rank writes here.
struct Meter {
  double microseconds[kKinds][64][1024];
  double processor[kKinds][64][1024];
};

struct Memory {
  local::SharedMemory meter, window, inputs, result;
};

local::SharedMemory Take(size_t bytes) {
  Result<local::SharedMemory> memory =
      local::SharedMemory::Create(bytes, local::Access::kReadWrite);
  if (memory.ok()) return std::move(memory.value());
  std::fprintf(stderr, "bench_window: %s\n", memory.status().ToString().c_str());
  std::exit(1);
}

// Returns the processor time of all threads of this process.
double ProcessorMicroseconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return 1e6 * static_cast<double>(used.tv_sec) + 1e-3 * static_cast<double>(used.tv_nsec);
}

struct Stamp {
  Time at = Clock::now();
  double processor = ProcessorMicroseconds();
};

// One process.
class Rank {
 public:
  Rank(const Settings& settings, const Memory& memory, uint32_t rank)
      : settings_(settings),
        memory_(memory),
        rank_(rank),
        window_(memory.window.bytes(), settings.shape, rank),
        reducer_(window_, settings.shape, rank),
        started_(Start(settings, rank, log_)),
        mine_(settings.bytes / sizeof(float)),
        out_(mine_.size(), -1),
        shared_mine_(Shared()),
        shared_out_(Shared()) {
    for (size_t i = 0; i < mine_.size(); ++i) mine_[i] = Value(i, rank_);
    std::memcpy(memory.inputs.bytes().data() + rank * settings.bytes, mine_.data(), settings.bytes);
    std::ranges::copy(mine_, shared_mine_.begin());
  }

  // Returns the number of wrong values.
  size_t Run() {
    size_t wrong = 0;
    for (int round = 0; round < settings_.rounds; ++round) {
      Together();
      Stamp begin;
      Pass();
      Note(kPass, round, begin);
      std::memcpy(out_.data(), memory_.result.bytes().data(), settings_.bytes);
      Note(kBare, round, begin);
      Together();
      begin = Stamp();
      Through(out_);
      Note(kWindow, round, begin);
      wrong += Wrong(out_);
      Together();
      begin = Stamp();
      Operate(mine_, out_);
      Note(kJob, round, begin);
      wrong += Wrong(out_);
      Together();
      begin = Stamp();
      Operate(shared_mine_, shared_out_);
      Note(kSharedJob, round, begin);
      wrong += Wrong(shared_out_);
    }
    return wrong;
  }

 private:
  void Note(Kind kind, int round, const Stamp& begin) const {
    Meter& meter = *reinterpret_cast<Meter*>(memory_.meter.bytes().data());
    const std::chrono::duration<double, std::micro> wall = Clock::now() - begin.at;
    meter.microseconds[kind][rank_][round] = wall.count();
    meter.processor[kind][rank_][round] = ProcessorMicroseconds() - begin.processor;
  }

  static float Value(size_t i, uint32_t rank) { return static_cast<float>(i % 1021 + rank + 1); }

  // Counts the wrong values among a few, so that looking costs little; and spoils them for the next
  // time.
  size_t Wrong(std::span<float> out) const {
    size_t wrong = 0;
    for (size_t i = 0; i < out.size(); i += 1009) {
      float sum = 0;
      for (uint32_t r = 0; r < settings_.ranks; ++r) sum += Value(i, r);
      wrong += out[i] != sum;
      out[i] = -1;
    }
    return wrong;
  }

  static byteps::runtime::StartedEngine Start(const Settings& settings, uint32_t rank,
                                              byteps::Log& log) {
    machine::LocalEngineOptions options;
    options.job = settings.job;
    options.rank = rank;
    options.size = settings.ranks;
    Result<byteps::runtime::StartedEngine> started = machine::StartLocalEngine(options, log);
    if (!started.ok()) Check(started.status());
    return std::move(started).value();
  }

  // Returns shared memory, which is given back with the process.
  std::span<float> Shared() const {
    auto taken = started_.memory->Take(settings_.bytes);
    Check(taken.ok() ? Status::Ok() : taken.status());
    return {reinterpret_cast<float*>(taken->bytes.data()), mine_.size()};
  }

  void Operate(std::span<const float> in, std::span<float> out) const {
    byteps::protocol::Operation operation;
    operation.name = "sum";
    operation.spec.shape = {static_cast<int64_t>(in.size())};
    operation.input = reinterpret_cast<const std::byte*>(in.data());
    operation.output = reinterpret_cast<std::byte*>(out.data());
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    Status how;
    started_.engine->Submit(std::move(operation), [&](const byteps::protocol::Outcome& outcome) {
      std::lock_guard<std::mutex> lock(mutex);
      how = outcome.status;
      done = true;
      changed.notify_one();
    });
    // Waits as byteps_wait does.
    auto is_done = [&] {
      std::lock_guard<std::mutex> lock(mutex);
      return done;
    };
    started_.engine->Help(is_done, Time::max());
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return done; });
    Check(how);
  }

  void Pass() {
    std::vector<const std::byte*> inputs;
    std::vector<uint32_t> places;
    size_t begin = mine_.size() * rank_ / settings_.ranks;
    size_t end = mine_.size() * (rank_ + 1) / settings_.ranks;
    for (uint32_t r = 0; r < settings_.ranks; ++r) {
      inputs.push_back(memory_.inputs.bytes().data() + r * settings_.bytes + begin * sizeof(float));
      places.push_back(r);
    }
    std::byte* result = memory_.result.bytes().data();
    kernels::Combine(Combine::kSum, DataType::kFloat32, result + begin * sizeof(float), inputs,
                     kernels::SumTree(places), end - begin);
    Together();
  }

  void Through(std::vector<float>& out) {
    local::Reduction what;
    what.input = std::as_bytes(std::span(mine_));
    what.output = std::as_writable_bytes(std::span(out));
    what.ranks = (uint64_t{1} << settings_.ranks) - 1;
    Check(reducer_.Run(what, Clock::now() + kLimit));
  }

  // Waits for all ranks: a reduction of one number is a barrier.
  void Together() {
    float one = 1;
    local::Reduction what;
    what.input = std::as_bytes(std::span(&one, 1));
    what.output = std::as_writable_bytes(std::span(&one, 1));
    what.ranks = (uint64_t{1} << settings_.ranks) - 1;
    Check(reducer_.Run(what, Clock::now() + kLimit));
  }

  static void Check(const Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "bench_window: %s\n", status.ToString().c_str());
    std::_Exit(1);
  }

  const Settings& settings_;
  const Memory& memory_;
  const uint32_t rank_;
  local::Window window_;
  local::Reducer reducer_;
  byteps::Log log_{"bench", "warning", true};
  const byteps::runtime::StartedEngine started_;
  std::vector<float> mine_, out_;
  std::span<float> shared_mine_, shared_out_;
};

// Returns the number of wrong values of a rank. The rank leaves in order.
size_t WrongOf(const Settings& settings, const Memory& memory, uint32_t rank) {
  return Rank(settings, memory, rank).Run();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double MedianOfSlowest(const Meter& meter, Kind kind, const Settings& settings) {
  std::vector<double> slowest;
  for (int round = 0; round < settings.rounds; ++round) {
    double most = 0;
    for (uint32_t r = 0; r < settings.ranks; ++r) {
      most = std::max(most, meter.microseconds[kind][r][round]);
    }
    slowest.push_back(most);
  }
  return Median(slowest);
}

double MedianOfSums(const Meter& meter, Kind kind, const Settings& settings) {
  std::vector<double> sums;
  for (int round = 0; round < settings.rounds; ++round) {
    double sum = 0;
    for (uint32_t r = 0; r < settings.ranks; ++r) sum += meter.processor[kind][r][round];
    sums.push_back(sum);
  }
  return Median(sums);
}

Settings Parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string name = argv[i];
    size_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--ranks") settings.ranks = static_cast<uint32_t>(value);
    if (name == "--bytes") settings.bytes = value / sizeof(float) * sizeof(float);
    if (name == "--rounds") settings.rounds = static_cast<int>(std::min<size_t>(value, 1024));
    if (name == "--blocks") settings.shape.blocks = static_cast<uint32_t>(value);
    if (name == "--block-bytes") settings.shape.block_bytes = value;
  }
  settings.shape.ranks = settings.ranks;
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings = Parse(argc, argv);
  Memory memory{Take(sizeof(Meter)), Take(local::Window::BytesFor(settings.shape)),
                Take(settings.bytes * settings.ranks), Take(settings.bytes)};
  std::vector<pid_t> children;
  for (uint32_t rank = 0; rank < settings.ranks; ++rank) {
    pid_t child = fork();
    if (child == 0) std::_Exit(WrongOf(settings, memory, rank) == 0 ? 0 : 2);
    children.push_back(child);
  }
  bool all_well = true;
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    all_well = all_well && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  if (!all_well) {
    std::fprintf(stderr, "bench_window: a rank failed, or had wrong sums\n");
    return 1;
  }
  const Meter& meter = *reinterpret_cast<const Meter*>(memory.meter.bytes().data());
  auto processor = [&](Kind kind) { return MedianOfSums(meter, kind, settings); };
  auto time = [&](Kind kind) { return MedianOfSlowest(meter, kind, settings); };
  std::printf(
      "{\"bytes\": %zu, \"ranks\": %u, \"bare_us\": %.1f, \"pass_us\": %.1f, "
      "\"window_us\": %.1f, \"engine_us\": %.1f, \"shared_us\": %.1f, \"bare_cpu_us\": %.1f, "
      "\"engine_cpu_us\": %.1f, \"shared_cpu_us\": %.1f}\n",
      settings.bytes, settings.ranks, time(kBare), time(kPass), time(kWindow), time(kJob),
      time(kSharedJob), processor(kBare), processor(kJob), processor(kSharedJob));
  return 0;
}
