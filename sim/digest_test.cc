#include "sim/digest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/faults.h"
#include "sim/scenario.h"

namespace byteps::sim {
namespace {

uint64_t DigestOf(const std::vector<std::string>& lines) {
  LogDigest digest;
  for (const std::string& line : lines) digest.Add(line);
  return digest.value();
}

template <typename Options, typename Run>
uint64_t DigestOfRun(Options options, uint64_t seed, Run run) {
  LogDigest digest;
  options.seed = seed;
  options.log = [&digest](const std::string& line) { digest.Add(line); };
  run(options);
  return digest.value();
}

TEST(LogDigestTest, IsFnv1aOfTheLinesWithTheirEnds) {
  EXPECT_EQ(DigestOf({}), 0xcbf29ce484222325);
  EXPECT_EQ(DigestOf({""}), 0xaf63c74c8601c8dd);
  EXPECT_EQ(DigestOf({"foobar"}), 0x345316a7168b8506);
  EXPECT_EQ(DigestOf({"foobar", "b"}), 0x6304c8d75e67fed2);
}

TEST(LogDigestTest, EachLineAndItsPlaceCount) {
  EXPECT_NE(DigestOf({"a", "b"}), DigestOf({"b", "a"}));
  EXPECT_NE(DigestOf({"a", "b"}), DigestOf({"ab"}));
  EXPECT_NE(DigestOf({"a", ""}), DigestOf({"a"}));
}

TEST(LogDigestTest, OneSeedHasOneDigestAndAnotherSeedAnotherOne) {
  ScenarioOptions plain;
  EXPECT_EQ(DigestOfRun(plain, 77, RunScenario), DigestOfRun(plain, 77, RunScenario));
  EXPECT_NE(DigestOfRun(plain, 77, RunScenario), DigestOfRun(plain, 78, RunScenario));
  FaultOptions faults;
  EXPECT_EQ(DigestOfRun(faults, 77, RunFaults), DigestOfRun(faults, 77, RunFaults));
  EXPECT_NE(DigestOfRun(faults, 77, RunFaults), DigestOfRun(faults, 78, RunFaults));
}

// The log begins with the script, so every change of it shows.
TEST(LogDigestTest, AChangedScriptChangesTheDigest) {
  FaultOptions options;
  const uint64_t before = DigestOfRun(options, 5, RunFaults);
  options.script = WriteFaults(5);
  EXPECT_EQ(DigestOfRun(options, 5, RunFaults), before);
  options.script->cluster.network.latency += microseconds(1);
  EXPECT_NE(DigestOfRun(options, 5, RunFaults), before);
}

}  // namespace
}  // namespace byteps::sim
