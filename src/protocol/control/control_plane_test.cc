// Seeds of control_world_for_test.h. The deliberate mistakes show that the schedules are wild
// enough to notice a mistake. (kReadOnce needs a history that is too rare for this; restart_test.cc
// writes it out.)
#include <gtest/gtest.h>

#include <string>

#include "src/protocol/control/control_world_for_test.h"

namespace byteps::protocol {
namespace {

constexpr int kSteps = 500;
constexpr uint64_t kSeeds = 4000;

// Returns the first seed that shows the mistake, or `seeds`.
uint64_t FirstWrong(const WorldRules& rules, uint64_t seeds, std::string* what = nullptr) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    std::string wrong = RunWorld(seed, rules, kSteps).wrong;
    if (wrong.empty()) continue;
    if (what != nullptr) *what = wrong;
    return seed;
  }
  return seeds;
}

class ControlPlaneTest : public testing::TestWithParam<bool> {};

TEST_P(ControlPlaneTest, NoTwoLivingMembersHoldDifferentViewsUnderOneEpoch) {
  WorldRules rules;
  rules.strict = GetParam();
  uint64_t epochs = 0;
  uint64_t ended = 0;
  uint64_t stuck = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    WorldResult result = RunWorld(seed, rules, kSteps);
    ASSERT_EQ(result.wrong, "") << "seed " << seed;
    epochs += result.epochs;
    ended += result.over ? 1 : 0;
    stuck += result.stuck ? 1 : 0;
  }
  EXPECT_GT(epochs, kSeeds * 2) << "views change";
  EXPECT_LT(ended + stuck, kSeeds / 2) << "most jobs go on";
  EXPECT_LT(stuck, kSeeds / 20);
}

INSTANTIATE_TEST_SUITE_P(Coordinators, ControlPlaneTest, testing::Bool(),
                         [](const auto& one) { return one.param ? "Two" : "OneAtATime"; });

struct Mutant {
  const char* name;
  WorldRules rules;
};

class MutantTest : public testing::TestWithParam<Mutant> {};

TEST_P(MutantTest, IsCaught) {
  constexpr uint64_t kSeedsMax = 10000;
  std::string what;
  uint64_t seed = FirstWrong(GetParam().rules, kSeedsMax, &what);
  EXPECT_LT(seed, kSeedsMax);
  RecordProperty("seed", std::to_string(seed) + ": " + what);
}

INSTANTIATE_TEST_SUITE_P(
    ControlPlane, MutantTest,
    testing::Values(
        Mutant{"AdmitWithoutSync", {.coordinator = CoordinatorMistake::kAdmitWithoutSync}},
        Mutant{"BeginBeside", {.coordinator = CoordinatorMistake::kBeginBeside}},
        Mutant{"IgnorePromised", {.coordinator = CoordinatorMistake::kIgnorePromised}},
        Mutant{"DiscountDeadInReading",
               {.coordinator = CoordinatorMistake::kDiscountDeadInReading}},
        Mutant{"NoQuorum", {.coordinator = CoordinatorMistake::kNoQuorum}},
        Mutant{"ActOnPropose", {.membership = MembershipMistake::kActOnPropose}},
        Mutant{"DiscountDespiteStrict",
               {.strict = true, .coordinator = CoordinatorMistake::kDiscountDespiteStrict}},
        Mutant{"ObeyLowerTerm", {.strict = true, .membership = MembershipMistake::kObeyLowerTerm}},
        Mutant{"AnyProcessVotes",
               {.pairs = true, .coordinator = CoordinatorMistake::kAnyProcessVotes}},
        Mutant{
            "AnyProcessVotesOfTwoCoordinators",
            {.strict = true, .pairs = true, .coordinator = CoordinatorMistake::kAnyProcessVotes}},
        Mutant{"ContributorOutlivesProcess",
               {.pairs = true, .coordinator = CoordinatorMistake::kContributorOutlivesProcess}},
        Mutant{"RebornTakesPlace",
               {.pairs = true, .coordinator = CoordinatorMistake::kRebornTakesPlace}}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace byteps::protocol
