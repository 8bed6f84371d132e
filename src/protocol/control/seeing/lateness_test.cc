// The times that ranks took tell which rank comes late.
#include "src/protocol/control/seeing/lateness.h"

#include <gtest/gtest.h>

namespace byteps::protocol {
namespace {

TEST(LatenessTest, WhoTookLeastCameLast) {
  Lateness lateness;
  lateness.Take(0, {{7, 1, 105000}}, 3);
  lateness.Take(1, {{7, 1, 5000}}, 3);
  EXPECT_TRUE(lateness.by_rank().empty()) << "rank 2 has not told yet";
  lateness.Take(2, {{7, 1, 100000}}, 3);
  EXPECT_DOUBLE_EQ(lateness.by_rank().at(0).last_ms, 0);
  EXPECT_DOUBLE_EQ(lateness.by_rank().at(1).last_ms, 100);
  EXPECT_EQ(lateness.by_rank().at(1).tensor, 7u);
  EXPECT_DOUBLE_EQ(lateness.by_rank().at(2).last_ms, 5);
}

TEST(LatenessTest, AStragglerIsTheWorstWithinThreeRounds) {
  Lateness lateness;
  for (uint64_t round = 1; round <= 50; ++round) {  // rank 0 was always a bit late
    lateness.Take(0, {{7, round, 1000}}, 2);
    lateness.Take(1, {{7, round, 21000}}, 2);
  }
  for (uint64_t round = 51; round <= 53; ++round) {
    lateness.Take(0, {{7, round, 101000}}, 2);
    lateness.Take(1, {{7, round, 1000}}, 2);
  }
  EXPECT_GT(lateness.by_rank().at(1).mean_ms, lateness.by_rank().at(0).mean_ms);
  EXPECT_GT(lateness.by_rank().at(1).mean_ms, 50);
}

TEST(LatenessTest, RoundsThatNobodyCompletesMakeRoom) {
  Lateness lateness;
  for (uint64_t round = 1; round <= 5 * Lateness::kOpenMax; ++round) {
    lateness.Take(0, {{7, round, 1000}}, 2);
  }
  lateness.Take(1, {{7, 1, 1000}}, 2);
  EXPECT_TRUE(lateness.by_rank().empty()) << "the first round was forgotten";
  lateness.Take(1, {{7, 5 * Lateness::kOpenMax, 1000}}, 2);
  EXPECT_EQ(lateness.by_rank().size(), 2u);
}

TEST(LatenessTest, ARoundOfAnotherGenerationIsAnotherRound) {
  Lateness lateness;
  lateness.Take(0, {{7, 1, 900000}, {7, 2, 1000}}, 2);
  lateness.Take(1, {{7, 2, 5000}}, 2);
  lateness.BeginGeneration();
  EXPECT_DOUBLE_EQ(lateness.by_rank().at(0).last_ms, 4) << "what is known of a rank stays";
  lateness.Take(1, {{7, 1, 1000}}, 2);
  EXPECT_EQ(lateness.by_rank().at(1).rounds, 1u) << "rank 0 has told of round 1 of before";
  lateness.Take(0, {{7, 1, 3000}}, 2);
  EXPECT_DOUBLE_EQ(lateness.by_rank().at(1).last_ms, 2);
}

TEST(LatenessTest, OneRankIsLateBehindNobody) {
  Lateness lateness;
  lateness.Take(0, {{7, 1, 1000}}, 1);
  EXPECT_TRUE(lateness.by_rank().empty());
}

}  // namespace
}  // namespace byteps::protocol
