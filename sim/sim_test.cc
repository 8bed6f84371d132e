#include <gtest/gtest.h>

#include <optional>

#include "sim/faults.h"
#include "sim/mistakes.h"
#include "sim/scenario.h"
#include "sim/shrink.h"

namespace byteps::sim {
namespace {

using protocol::ShardMistake;

TEST(SimulationTest, SeedsPassTheOracle) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    ScenarioOptions options;
    options.seed = seed;
    ScenarioResult result = RunScenario(options);
    ASSERT_FALSE(result.violation.has_value()) << "seed " << seed << ": " << *result.violation;
  }
}

TEST(SimulationTest, OneSeedIsOneSchedule) {
  std::vector<std::string> logs[2];
  for (auto& log : logs) {
    ScenarioOptions options;
    options.seed = 77;
    options.log = [&](const std::string& line) { log.push_back(line); };
    ScenarioResult result = RunScenario(options);
    log.push_back(std::to_string(result.events));
  }
  EXPECT_EQ(logs[0], logs[1]);
}

// The oracle must notice a broken shard within 1000 seeds.
class MistakeTest : public testing::TestWithParam<ShardMistake> {};

TEST_P(MistakeTest, IsCaught) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    ScenarioOptions options;
    options.seed = seed;
    options.mistake = GetParam();
    if (RunScenario(options).violation.has_value()) return;
  }
  FAIL() << "1000 seeds did not notice the mistake";
}

INSTANTIATE_TEST_SUITE_P(
    All, MistakeTest,
    testing::Values(ShardMistake::kCombineInOrderOfArrival, ShardMistake::kCombineFromLeftToRight,
                    ShardMistake::kLeaveOneOut, ShardMistake::kAnswerBeforeTheLast,
                    ShardMistake::kAnswerTwice, ShardMistake::kForgetToAnswerOne,
                    ShardMistake::kNeverAsk));

TEST(FaultTest, SeedsPassTheOracle) {
  uint64_t rounds = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    FaultOptions options;
    options.seed = seed;
    FaultResult result = RunFaults(options);
    ASSERT_FALSE(result.violation.has_value()) << "seed " << seed << ": " << *result.violation;
    rounds += result.rounds;
  }
  EXPECT_GT(rounds, 30000U) << "most operations end well";
}

// The mistakes that a crash, a freeze, a broken connection or a second coordinator shows. Two are
// missing. A member that obeys a lower term does no harm here, because it never listens to two
// coordinators at once, and the coordinator to which it goes back takes a higher term;
// protocol/control/control_plane_test.cc catches it. A worker that hides the tensors that it has
// let go does harm only if a coordinator ends between two messages to two workers, which happens in
// one seed of sixty thousand; protocol/control/names/letting_go_test.cc catches it.
class FaultMistakeTest : public testing::TestWithParam<const char*> {};

TEST_P(FaultMistakeTest, IsCaught) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    FaultOptions options;
    options.seed = seed;
    options.mistakes = MistakeNamed(GetParam());
    if (RunFaults(options).violation.has_value()) return;
  }
  FAIL() << "2000 seeds did not notice the mistake";
}

INSTANTIATE_TEST_SUITE_P(
    All, FaultMistakeTest,
    testing::Values(
        "hand-over-without-keeping", "no-verdict-of-previous-round", "no-verdict-of-present-round",
        "accept-from-former-owner", "shard-ignores-since", "decide-before-all-pushed", "no-fence",
        "judge-by-old-view", "no-verdict-after-reconnect", "no-answer-to-repeat",
        "verdict-is-contribution", "admit-without-sync", "leave-with-unstable",
        "error-without-resync", "error-before-stable", "no-have-after-reconnect",
        "repeats-wait-for-credit", "ignore-promised", "no-quorum", "act-on-propose",
        "worker-ignores-since", "verdict-drops-next-round", "discount-dead-in-reading",
        "count-own-standstill", "read-once", "discount-despite-strict", "answered-in-old-lane",
        "resync-before-take-over", "divisor-counts-contributors", "any-process-votes",
        "contributor-outlives-process", "reborn-takes-place", "siblings-are-company",
        "let-go-after-error", "use-what-is-let-go-of", "count-on", "forget-what-one-holds"));

// The script is seed 151041. The link of worker 1 is slow: when worker 1 learns that worker 2 was
// let in, the other two have given up that round and are at the next sync point. Worker 1 must play
// the round, too.
TEST(FaultTest, WhoHearsLateOfAGenerationPlaysItsFirstRound) {
  FaultScript script;
  ClusterOptions& cluster = script.cluster;
  cluster.network.latency = microseconds(50);
  cluster.host_links = {1e8, 2e5, 1e8, 1e8};
  cluster.worker_hosts = {0, 1, 2};
  cluster.servers = {{3, 1}};
  cluster.coordinator_host = 3;
  cluster.late_workers = cluster.min_workers = 1;
  script.tensors.emplace_back();
  script.rounds = 3;
  script.sync_every = 1;
  script.pause.resize(3);
  script.order.assign(3, {0});
  FaultEvent join;
  join.fault = Fault::kJoin;
  FaultEvent abort;
  abort.fault = Fault::kAbort;
  abort.a = 2;
  abort.moment = Moment::kPushArrived;
  abort.by = 2;
  script.events = {join, abort};
  FaultOptions options;
  options.script = script;
  FaultResult result = RunFaults(options);
  EXPECT_FALSE(result.violation.has_value()) << *result.violation;
  EXPECT_EQ(result.played.size(), 2U);
  EXPECT_EQ(result.rounds, 2U + 3U) << "the first and the last one end well";
}

// Some histories need many faults. Among twenty seeds that show the mistake, one needs a single
// fault and a single tensor.
TEST(FaultShrinkTest, LeavesAFaultThatTheMistakeNeeds) {
  uint64_t seed = 0;
  bool small = false;
  for (int found = 0; found < 20 && !small;) {
    FaultOptions options;
    options.mistakes = MistakeNamed("no-answer-to-repeat");
    options.seed = ++seed;
    if (!RunFaults(options).violation.has_value()) continue;
    ++found;
    options.script = ShrinkFaults(options);
    EXPECT_TRUE(RunFaults(options).violation.has_value());
    small = options.script->tensors.size() == 1 && options.script->events.size() == 1;
    options.script->events.clear();
    EXPECT_FALSE(RunFaults(options).violation.has_value());
  }
  EXPECT_TRUE(small) << "after seed " << seed;
}

// The shrunk script is no larger than the mistake needs: one tensor, one round, two workers, and
// nothing more can be taken away.
TEST(ShrinkTest, LeavesOnlyWhatTheMistakeNeeds) {
  ScenarioOptions options;
  options.mistake = ShardMistake::kLeaveOneOut;
  while (!RunScenario(options).violation.has_value()) ++options.seed;
  Script whole = WriteScript(options.seed, options.faults);
  options.script = Shrink(options);
  EXPECT_EQ(options.script->tensors.size(), 1U);
  EXPECT_EQ(options.script->rounds, 1U);
  EXPECT_EQ(options.script->cluster.worker_hosts.size(), 2U);
  EXPECT_EQ(options.script->accident, Accident::kNone);
  EXPECT_GT(SmallerScripts(whole).size(), 0U);
  EXPECT_TRUE(RunScenario(options).violation.has_value());
  for (const Script& smaller : SmallerScripts(*options.script)) {
    options.script = smaller;
    EXPECT_FALSE(RunScenario(options).violation.has_value()) << Describe(smaller);
  }
  options.mistake = ShardMistake::kNone;
  options.script = whole;
  EXPECT_FALSE(RunScenario(options).violation.has_value()) << "it is the mistake that fails";
}

}  // namespace
}  // namespace byteps::sim
