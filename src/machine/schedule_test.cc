// Whole machines under random schedules (schedule_for_test.h).
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>

#include "src/machine/schedule_local_for_test.h"
#include "src/machine/schedule_member_for_test.h"

namespace byteps::machine {
namespace {

// Says which rank stops, when, in the middle of what, and whether it goes on.
ScheduledFault FaultOf(uint64_t seed, uint32_t count) {
  std::mt19937_64 random(seed * 31 + 7);
  ScheduledFault fault;
  fault.rank = static_cast<uint32_t>(random() % count);
  fault.not_before = static_cast<int>(random() % 150);
  const uint64_t within = random() % 4;
  if (within < 3) fault.within = static_cast<HalfStep>(within);
  fault.is_killed = random() % 2 == 0;
  fault.is_late = random() % 4 == 0;
  return fault;
}

constexpr uint64_t kSeeds = 250;
// A campaign gives other numbers than 0: --gtest_random_seed=N.
uint64_t FirstSeed() { return kSeeds * static_cast<uint64_t>(GTEST_FLAG_GET(random_seed)); }

class Schedules : public testing::TestWithParam<int> {
 protected:
  // Plays schedules, each with a rank that stops, or without.
  template <typename Machine>
  Played Play(bool with_faults) {
    Played all;
    const auto ranks = static_cast<uint32_t>(GetParam());
    const uint64_t first = FirstSeed();
    for (uint64_t seed = first; seed < first + kSeeds && !HasFailure(); ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::optional<ScheduledFault> fault;
      if (with_faults) fault = FaultOf(seed, ranks);
      all.Add(Machine(seed, ranks).Run(fault));
    }
    return all;
  }
  template <typename Machine>
  Played PlayAll() {
    const Played all = Play<Machine>(false);
    if (HasFailure()) return all;
    EXPECT_GT(all.joins, kSeeds / 5);
    EXPECT_GT(all.leaves, kSeeds / 10);
    EXPECT_GT(all.disagreements, kSeeds / 5);
    EXPECT_GT(all.gaps, kSeeds / 10);
    EXPECT_GT(all.let_go, kSeeds);
    EXPECT_GT(all.failed_copies, kSeeds / 20);
    return all;
  }
  template <typename Machine>
  void PlayFaults() {
    const Played all = Play<Machine>(true);
    if (HasFailure()) return;
    EXPECT_GT(all.within, kSeeds / 10);
  }
};

TEST_P(Schedules, OfAMachineWithoutServers) {
  const Played all = PlayAll<LocalMachine>();
  if (HasFailure()) return;
  EXPECT_GT(all.launches, kSeeds / 4);
  EXPECT_GT(all.broken, 0u);
  EXPECT_GT(all.lost_results, 0u);
}

TEST_P(Schedules, OfAMachineWithoutServersOneOfWhoseRanksStops) { PlayFaults<LocalMachine>(); }

TEST_P(Schedules, OfAMachineThatIsOneMember) {
  const Played all = PlayAll<MemberMachine>();
  if (HasFailure()) return;
  EXPECT_GT(all.launches, kSeeds / 4);
  EXPECT_GT(all.broken, kSeeds / 50);
  EXPECT_GT(all.too_late, 0u);
  EXPECT_GT(all.lost_results, 0u);
}

TEST_P(Schedules, OfAMachineThatIsOneMemberOneOfWhoseRanksStops) { PlayFaults<MemberMachine>(); }

INSTANTIATE_TEST_SUITE_P(Ranks, Schedules, testing::Values(2, 3, 4));

}  // namespace
}  // namespace byteps::machine
