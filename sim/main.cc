// byteps_sim: runs whole jobs on a virtual network, from seeds.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "sim/scale.h"
#include "sim/scenario.h"

namespace byteps::sim {
namespace {

struct Arguments {
  uint64_t seeds = 2000;
  uint64_t first = 1;
  uint64_t only = 0;
  unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
  std::string mistake = "none";
  bool scale = false;
  uint32_t scale_max = 64;
  uint64_t scale_credit = 0;
  std::string json;
};

const std::map<std::string, protocol::ShardMistake>& Mistakes() {
  using protocol::ShardMistake;
  static const std::map<std::string, ShardMistake> mistakes = {
      {"none", ShardMistake::kNone},
      {"order-of-arrival", ShardMistake::kCombineInOrderOfArrival},
      {"leave-one-out", ShardMistake::kLeaveOneOut},
      {"answer-early", ShardMistake::kAnswerBeforeTheLast},
      {"answer-twice", ShardMistake::kAnswerTwice},
      {"forget-one", ShardMistake::kForgetToAnswerOne},
  };
  return mistakes;
}

int RunOne(const Arguments& arguments) {
  ScenarioOptions options;
  options.seed = arguments.only;
  options.mistake = Mistakes().at(arguments.mistake);
  options.log = [](const std::string& line) { fmt::print("{}\n", line); };
  ScenarioResult result = RunScenario(options);
  fmt::print("seed {}: {}\n", arguments.only, result.violation.value_or("no violation"));
  return result.violation.has_value() ? 1 : 0;
}

struct Totals {
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> events{0};
  std::atomic<uint64_t> operations{0};
  std::atomic<uint64_t> done{0};
  std::atomic<uint64_t> failed{0};
};

void Work(const Arguments& arguments, Totals& totals) {
  while (totals.failed == 0) {
    uint64_t index = totals.next++;
    if (index >= arguments.seeds) return;
    ScenarioOptions options;
    options.seed = arguments.first + index;
    options.mistake = Mistakes().at(arguments.mistake);
    ScenarioResult result = RunScenario(options);
    totals.events += result.events;
    totals.operations += result.operations;
    uint64_t done = ++totals.done;
    if (result.violation.has_value()) {
      ++totals.failed;
      fmt::print("seed {}: {}\n  replay with: ./dev sim --seed {} --mistake {}\n", options.seed,
                 *result.violation, options.seed, arguments.mistake);
    } else if (done % 5000 == 0) {
      fmt::print("{} of {} seeds\n", done, arguments.seeds);
      std::fflush(stdout);
    }
  }
}

int RunSeeds(const Arguments& arguments) {
  auto start = std::chrono::steady_clock::now();
  Totals totals;
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < arguments.jobs; ++i) {
    threads.emplace_back([&] { Work(arguments, totals); });
  }
  threads.clear();
  double spent = ToSeconds(std::chrono::steady_clock::now() - start);
  fmt::print("{} seeds, {} operations, {} events in {:.1f} s: {}\n", totals.done.load(),
             totals.operations.load(), totals.events.load(), spent,
             totals.failed == 0 ? "no violation" : "VIOLATION");
  return totals.failed == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Runs whole jobs of the production state machines on a virtual network."};
  app.add_option("--seeds", arguments.seeds, "how many schedules to run")->capture_default_str();
  app.add_option("--first", arguments.first, "the first seed")->capture_default_str();
  app.add_option("--seed", arguments.only, "replay this one schedule and print its events");
  app.add_option("--jobs", arguments.jobs, "threads")->capture_default_str();
  app.add_option("--mistake", arguments.mistake, "make the shard wrong in this way")
      ->check(CLI::IsMember(Mistakes()))
      ->capture_default_str();
  app.add_flag("--scale", arguments.scale, "time of a push_pull of 100 MB over its lower bound");
  app.add_option("--scale-max", arguments.scale_max, "largest number of workers with --scale")
      ->capture_default_str();
  app.add_option("--scale-credit", arguments.scale_credit,
                 "with --scale: bytes of credit per worker; 0: as the product chooses")
      ->capture_default_str();
  app.add_option("--json", arguments.json, "with --scale: also write the table to this file");
  CLI11_PARSE(app, argc, argv);
  if (arguments.scale) return RunScale(arguments.scale_max, arguments.scale_credit, arguments.json);
  return arguments.only != 0 ? RunOne(arguments) : RunSeeds(arguments);
}

}  // namespace
}  // namespace byteps::sim

int main(int argc, char** argv) { return byteps::sim::Main(argc, argv); }
