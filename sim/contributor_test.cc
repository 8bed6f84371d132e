// Jobs whose workers are contributors of several processes (docs/membership.md, rule 15).
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "sim/faults.h"

namespace byteps::sim {
namespace {

struct Line {
  double at = 0;
  std::string text;
};

// Plays two workers, the second one of three processes, and one server.
class ContributorPlayTest : public testing::Test {
 protected:
  ContributorPlayTest() {
    ClusterOptions& cluster = script.cluster;
    cluster.network.latency = microseconds(50);
    cluster.host_links = {1e8, 1e8, 1e8};
    cluster.worker_hosts = {0, 1};
    cluster.processes = {1, 3};
    cluster.servers = {{2, 1}};
    cluster.coordinator_host = 2;
    cluster.min_workers = 1;
    cluster.heartbeat = milliseconds(200);
    script.tensors.emplace_back();
    script.tensors[0].op = wire::Op::kAverage;
    script.rounds = 20;
    script.pause.assign(2, milliseconds(1));
    script.order.assign(2, {0});
  }

  FaultEvent& Add(Fault fault, uint32_t process) {
    FaultEvent event;
    event.fault = fault;
    event.at = milliseconds(5);
    event.lasts = kForEver;
    event.a = 1;
    event.process = process;
    event.told = true;
    script.events.push_back(event);
    return script.events.back();
  }

  void Run() {
    FaultOptions options;
    options.script = script;
    options.log = [this](const std::string& line) {
      size_t space = line.find(' ');
      if (line[0] < '0' || line[0] > '9' || line.find('.') > space) return;
      log.push_back({std::stod(line.substr(0, space)), line.substr(space + 1)});
    };
    FaultResult result = RunFaults(options);
    EXPECT_FALSE(result.violation.has_value()) << *result.violation;
    rounds = result.rounds;
  }

  std::optional<double> When(const std::string& begin, const std::string& part) const {
    auto found = std::find_if(log.begin(), log.end(), [&](const Line& line) {
      return line.text.starts_with(begin) && line.text.find(part) != std::string::npos;
    });
    return found == log.end() ? std::nullopt : std::optional<double>(found->at);
  }

  FaultScript script;
  std::vector<Line> log;
  uint64_t rounds = 0;
};

TEST_F(ContributorPlayTest, AveragesAndReceiptsCountRanks) {
  Run();  // the oracle compares both with the bits of the results
  EXPECT_EQ(rounds, 40U);
  EXPECT_TRUE(When("coordinator: ", "join").has_value());
}

TEST_F(ContributorPlayTest, AllOfItEndWithOneProcess) {
  for (uint32_t dies : {0U, 2U}) {
    SCOPED_TRACE(dies);
    log.clear();
    script.events.clear();
    Add(Fault::kKillWorker, dies);
    Run();
    EXPECT_TRUE(When("worker 1, process 1: ", "ends: the others went on").has_value());
    EXPECT_EQ(When("worker 1: ", "job over").has_value(), dies == 2);
    EXPECT_GE(rounds, 20U) << "worker 0 goes on";
  }
}

TEST_F(ContributorPlayTest, ACarrierThatHasLeftStaysUntilTheOthersHave) {
  script.cluster.process_gap = milliseconds(10);
  Add(Fault::kLeave, 0);
  Run();
  std::optional<double> first = When("coordinator: ", "leave");
  std::optional<double> out = When("worker 1: ", "leave");
  ASSERT_TRUE(first.has_value() && out.has_value());
  EXPECT_GT(*out - *first, 0.010) << "the last one says so 20 ms after the first";
  EXPECT_TRUE(When("worker 0: operation", " has left the job").has_value());
}

TEST_F(ContributorPlayTest, ASiblingThatIsStartedAgainWaits) {
  Add(Fault::kKillWorker, 1).lasts = milliseconds(2);
  Run();
  EXPECT_TRUE(When("worker 1, process 1, again: ", "waiting").has_value());
  EXPECT_FALSE(When("worker 1, process 1, again: ", "commit").has_value());
}

TEST(ContributorSeedsTest, AQuarterOfThemHasContributorsOfSeveralProcesses) {
  uint32_t several = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    FaultScript script = WriteFaults(seed);
    const std::vector<uint32_t>& sizes = script.cluster.processes;
    several += sizes.empty() ? 0 : 1;
    for (uint32_t size : sizes) EXPECT_TRUE(size >= 1 && size <= 3) << seed;
  }
  EXPECT_GT(several, 60U);
  EXPECT_LT(several, 140U);
}

}  // namespace
}  // namespace byteps::sim
