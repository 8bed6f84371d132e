#include <gtest/gtest.h>

#include "sim/scenario.h"

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

INSTANTIATE_TEST_SUITE_P(All, MistakeTest,
                         testing::Values(ShardMistake::kCombineInOrderOfArrival,
                                         ShardMistake::kLeaveOneOut,
                                         ShardMistake::kAnswerBeforeTheLast,
                                         ShardMistake::kAnswerTwice,
                                         ShardMistake::kForgetToAnswerOne));

}  // namespace
}  // namespace byteps::sim
