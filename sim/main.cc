// byteps_sim: runs whole jobs on a virtual network, from seeds.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sim/digest.h"
#include "sim/faults.h"
#include "sim/links.h"
#include "sim/mistakes.h"
#include "sim/scale.h"
#include "sim/scenario.h"
#include "sim/shrink.h"

namespace byteps::sim {
namespace {

struct Arguments {
  uint64_t seeds = 2000;
  uint64_t first = 1;
  uint64_t only = 0;
  unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
  std::string mistake = "none";
  bool faults = false;
  bool keep_going = false;
  bool verbose = false;
  bool digest = false;
  bool scale = false;
  ScaleOptions scale_options;
  bool links = false;
  LinksOptions links_options;
};

// An event log for people: its beginning and its end.
class EventLog {
 public:
  void Add(const std::string& line) {
    if (++count_ <= kFirst) return fmt::print("{}\n", line);
    if (last_.size() == kLast) last_.pop_front();
    last_.push_back(line);
  }
  void Flush() {
    if (count_ > kFirst + kLast) fmt::print("... {} events ...\n", count_ - kFirst - kLast);
    for (const std::string& line : last_) fmt::print("{}\n", line);
    last_.clear();
    count_ = 0;
  }

 private:
  static constexpr size_t kFirst = 800;
  static constexpr size_t kLast = 200;
  size_t count_ = 0;
  std::deque<std::string> last_;
};

// `whole`: print the log of the seed's own script, too, and not only of the shrunk one.
int RunOne(const Arguments& arguments, bool whole) {
  EventLog log;
  ScenarioOptions options;
  options.seed = arguments.only;
  options.mistake = MistakeNamed(arguments.mistake).shard;
  auto add = [&log](const std::string& line) { log.Add(line); };
  if (whole) options.log = add;
  ScenarioResult result = RunScenario(options);
  log.Flush();
  fmt::print("seed {}: {}\n", arguments.only, result.violation.value_or("no violation"));
  if (!result.violation.has_value()) return 0;
  options.script = Shrink(options);
  options.log = add;
  fmt::print("\nthe smallest script that still breaks a rule:\n");
  result = RunScenario(options);
  log.Flush();
  fmt::print("seed {}, shrunk: {}\n", arguments.only, result.violation.value_or("nothing"));
  return 1;
}

int RunOneFault(const Arguments& arguments, bool whole) {
  EventLog log;
  FaultOptions options;
  options.seed = arguments.only;
  options.mistakes = MistakeNamed(arguments.mistake);
  auto add = [&log](const std::string& line) { log.Add(line); };
  if (whole) options.log = add;
  FaultResult result = RunFaults(options);
  log.Flush();
  fmt::print("seed {}: {}\n", arguments.only, result.violation.value_or("no violation"));
  if (!result.violation.has_value()) return 0;
  options.script = ShrinkFaults(options);
  options.log = add;
  fmt::print("\nthe smallest script that still breaks a rule:\n");
  result = RunFaults(options);
  log.Flush();
  fmt::print("seed {}, shrunk: {}\n", arguments.only, result.violation.value_or("nothing"));
  return 1;
}

struct Totals {
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> events{0};
  std::atomic<uint64_t> operations{0};
  std::atomic<uint64_t> done{0};
  std::atomic<uint64_t> failed{0};
  std::atomic<uint64_t> virtual_microseconds{0};
  std::atomic<uint64_t> rest_microseconds{0};
  std::atomic<uint64_t> failed_seed{0};
  std::atomic<uint64_t> ended_early{0};
};

// Counts how often each fault was played, and each pair of faults in one job.
struct Table {
  void Add(const FaultResult& result) {
    std::lock_guard lock(mutex);
    near_wrap += result.near_wrap ? 1 : 0;
    for (size_t i = 0; i < result.played.size(); ++i) {
      auto first = static_cast<size_t>(result.played[i]);
      ++alone[first];
      for (size_t j = i + 1; j < result.played.size(); ++j) {
        auto second = static_cast<size_t>(result.played[j]);
        ++pairs[std::min(first, second)][std::max(first, second)];
      }
    }
  }
  void Print() const {
    fmt::print("\n{:<20}{:>9}  with number", "fault", "played");
    for (int j = 0; j < kFaultCount; ++j) fmt::print("{:>7}", j);
    for (int i = 0; i < kFaultCount; ++i) {
      fmt::print("\n{:>2} {:<17}{:>9}             ", i, NameOf(static_cast<Fault>(i)), alone[i]);
      for (int j = 0; j < kFaultCount; ++j) {
        fmt::print("{:>7}", pairs[std::min(i, j)][std::max(i, j)]);
      }
    }
    fmt::print("\njobs whose rounds crossed 2^24 or 2^32: {}\n", near_wrap);
  }

  std::mutex mutex;
  uint64_t near_wrap = 0;
  std::array<uint64_t, kFaultCount> alone{};
  std::array<std::array<uint64_t, kFaultCount>, kFaultCount> pairs{};
};

// Returns where the report goes: the output of --digest has nothing but digests.
std::FILE* ReportOf(const Arguments& arguments) { return arguments.digest ? stderr : stdout; }

// Prints a line for each seed, in the order of the seeds, whatever the order in which they end.
class DigestLines {
 public:
  explicit DigestLines(uint64_t first) : next_(first) {}
  void Add(uint64_t seed, uint64_t digest) {
    std::lock_guard lock(mutex_);
    waiting_[seed] = digest;
    for (; !waiting_.empty() && waiting_.begin()->first == next_; ++next_) {
      fmt::print("{} {:016x}\n", next_, waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
    }
  }

 private:
  std::mutex mutex_;
  uint64_t next_;
  std::map<uint64_t, uint64_t> waiting_;
};

struct Outcome {
  std::optional<std::string> violation;
  uint64_t events = 0;
  uint64_t operations = 0;
  double virtual_seconds = 0;
  double rest_seconds = 0;
  bool ended_early = false;
};

using Log = std::function<void(const std::string&)>;

Outcome RunSeed(const Arguments& arguments, uint64_t seed, const Log& log, Table& table) {
  if (arguments.faults) {
    FaultOptions options;
    options.seed = seed;
    options.mistakes = MistakeNamed(arguments.mistake);
    options.log = log;
    FaultResult result = RunFaults(options);
    table.Add(result);
    return {result.violation,       result.events,       result.rounds,
            result.virtual_seconds, result.rest_seconds, result.ended_early};
  }
  ScenarioOptions options;
  options.seed = seed;
  options.mistake = MistakeNamed(arguments.mistake).shard;
  options.log = log;
  ScenarioResult result = RunScenario(options);
  return {result.violation, result.events, result.operations, result.virtual_seconds, 0, false};
}

void Work(const Arguments& arguments, Totals& totals, Table& table, DigestLines& lines) {
  while (totals.failed == 0 || arguments.keep_going) {
    uint64_t index = totals.next++;
    if (index >= arguments.seeds) return;
    uint64_t seed = arguments.first + index;
    LogDigest digest;
    Log log;
    if (arguments.digest) log = [&digest](const std::string& line) { digest.Add(line); };
    Outcome result = RunSeed(arguments, seed, log, table);
    if (arguments.digest) {
      digest.Add(result.violation.value_or("no violation"));
      lines.Add(seed, digest.value());
    }
    totals.events += result.events;
    totals.operations += result.operations;
    if (result.ended_early) ++totals.ended_early;
    totals.virtual_microseconds += static_cast<uint64_t>(result.virtual_seconds * 1e6);
    totals.rest_microseconds += static_cast<uint64_t>(result.rest_seconds * 1e6);
    uint64_t done = ++totals.done;
    if (result.violation.has_value()) {
      ++totals.failed;
      totals.failed_seed = seed;
      fmt::print(ReportOf(arguments),
                 "seed {}: {}\n  replay with: ./dev sim {}--seed {} --mistake {}\n", seed,
                 *result.violation, arguments.faults ? "--faults " : "", seed, arguments.mistake);
    } else if (done % 5000 == 0) {
      fmt::print(ReportOf(arguments), "{} of {} seeds\n", done, arguments.seeds);
      std::fflush(stdout);
    }
  }
}

int RunSeeds(const Arguments& arguments) {
  auto start = std::chrono::steady_clock::now();
  Totals totals;
  Table table;
  DigestLines lines(arguments.first);
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < arguments.jobs; ++i) {
    threads.emplace_back([&] { Work(arguments, totals, table, lines); });
  }
  threads.clear();
  double spent = ToSeconds(std::chrono::steady_clock::now() - start);
  double of_cores = spent * arguments.jobs;
  double working = static_cast<double>(totals.virtual_microseconds.load()) / 1e6;
  double rest = static_cast<double>(totals.rest_microseconds.load()) / 1e6;
  fmt::print(ReportOf(arguments), "{} seeds, {} operations, {} events in {:.1f} s: {}\n",
             totals.done.load(), totals.operations.load(), totals.events.load(), spent,
             totals.failed == 0 ? "no violation" : "VIOLATION");
  if (arguments.digest) return totals.failed == 0 ? 0 : 1;
  fmt::print(
      "{:.1f} s of virtual time until the last operations ended, {:.0f} for each second of a "
      "core\n",
      working, working / of_cores);
  if (arguments.faults) {
    fmt::print("{:.1f} s with what it took to heal and come to rest, {:.0f} for each\n",
               working + rest, (working + rest) / of_cores);
    fmt::print("{} jobs lost so many processes at once that they ended, with errors\n",
               totals.ended_early.load());
    if (arguments.verbose) table.Print();
  }
  if (totals.failed == 0) return 0;
  if (arguments.keep_going) return fmt::print("{} seeds failed\n", totals.failed.load()), 1;
  Arguments replay = arguments;
  replay.only = totals.failed_seed;
  return arguments.faults ? RunOneFault(replay, false) : RunOne(replay, false);
}

int Main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Runs whole jobs of the production state machines on a virtual network."};
  app.add_option("--seeds", arguments.seeds, "how many schedules to run")->capture_default_str();
  app.add_option("--first", arguments.first, "the first seed")->capture_default_str();
  app.add_option("--seed", arguments.only, "replay this one schedule and print its events");
  app.add_option("--jobs", arguments.jobs, "threads")->capture_default_str();
  app.add_option("--mistake", arguments.mistake, "make one part wrong in this way")
      ->check(CLI::IsMember(MistakeNames()))
      ->capture_default_str();
  app.add_flag("--faults", arguments.faults,
               "processes die, freeze and come back; links are cut; clocks jump");
  app.add_flag("--verbose", arguments.verbose, "with --faults: how often each was played");
  app.add_flag("--digest", arguments.digest,
               "print each seed and a hash of its whole log, and the report to stderr");
  app.add_flag("--keep-going", arguments.keep_going, "do not stop at the first violation");
  app.add_flag("--scale", arguments.scale, "time of a push_pull of 100 MB over its lower bound");
  app.add_option("--scale-min", arguments.scale_options.workers_min,
                 "smallest number of workers with --scale")
      ->capture_default_str();
  app.add_option("--scale-max", arguments.scale_options.workers_max,
                 "largest number of workers with --scale")
      ->capture_default_str();
  app.add_option("--scale-servers", arguments.scale_options.servers,
                 "with --scale: only cells with so many servers of their own");
  app.add_option("--scale-gbit", arguments.scale_options.gbit, "with --scale: rate of the links")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--scale-piece", arguments.scale_options.piece_bytes_max,
                 "with --scale: largest piece, in bytes")
      ->capture_default_str();
  app.add_option("--scale-credit", arguments.scale_options.credit_bytes,
                 "with --scale: bytes of credit per worker; 0: as the product chooses")
      ->capture_default_str();
  app.add_option("--json", arguments.scale_options.json_path,
                 "with --scale: also write the table to this file");
  app.add_flag("--links", arguments.links,
               "time of every step while the link of a server becomes slower and faster");
  app.add_option("--links-mbit", arguments.links_options.mbit, "with --links: rate of the links")
      ->capture_default_str();
  app.add_option("--links-workers", arguments.links_options.workers, "with --links")
      ->capture_default_str();
  app.add_option("--links-servers", arguments.links_options.servers, "with --links")
      ->capture_default_str();
  app.add_option("--links-steps", arguments.links_options.steps, "with --links: of each rate")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (arguments.scale) return RunScale(arguments.scale_options);
  if (arguments.links) return RunLinks(arguments.links_options);
  if (arguments.digest && arguments.only != 0) {
    arguments.first = arguments.only;
    arguments.seeds = 1;
    return RunSeeds(arguments);
  }
  if (arguments.only == 0) return RunSeeds(arguments);
  return arguments.faults ? RunOneFault(arguments, true) : RunOne(arguments, true);
}

}  // namespace
}  // namespace byteps::sim

int main(int argc, char** argv) { return byteps::sim::Main(argc, argv); }
