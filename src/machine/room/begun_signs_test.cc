#include "src/machine/room/begun_signs.h"

#include <gtest/gtest.h>

#include <memory>

namespace byteps::machine {
namespace {

constexpr RoundKey kFirst = {1, 1, 0};
constexpr RoundKey kSecond = {2, 1, 0};

class BegunSignsTest : public testing::Test {
 protected:
  const std::unique_ptr<SignWords> words = std::make_unique<SignWords>();
  BegunSigns signs[3] = {{*words, 0}, {*words, 1}, {*words, 2}};
};

TEST_F(BegunSignsTest, TheLastRankWakesTheCarrier) {
  EXPECT_FALSE(signs[1].Begin(kFirst, 0b111));
  EXPECT_FALSE(signs[0].Begin(kFirst, 0b111));
  EXPECT_TRUE(signs[2].Begin(kFirst, 0b111));
}

TEST_F(BegunSignsTest, OnlyRanksOfTheRoundCount) {
  EXPECT_FALSE(signs[1].Begin(kFirst, 0b110));
  EXPECT_FALSE(signs[2].Begin(kSecond, 0b110)) << "another round";
  EXPECT_TRUE(signs[2].Begin(kFirst, 0b110));
}

TEST_F(BegunSignsTest, WhatHasEndedIsNotBegun) {
  EXPECT_FALSE(signs[1].Begin(kFirst, 0b11));
  signs[1].End(kFirst);
  EXPECT_FALSE(signs[0].Begin(kFirst, 0b11));
}

// The end of a round may reach a rank that never began it.
TEST_F(BegunSignsTest, TheEndOfARoundThatWasNotBegunChangesNothing) {
  signs[1].End(kFirst);
  EXPECT_FALSE(signs[1].Begin(kFirst, 0b11));
  signs[1].End(kFirst);
  EXPECT_FALSE(signs[0].Begin(kFirst, 0b11));
}

// Begins more rounds than there are words, so some words stand for several rounds.
TEST_F(BegunSignsTest, OfManyRoundsNoneIsMissed) {
  constexpr TensorId kMany = 3 * kSigns;
  for (TensorId tensor = 0; tensor < kMany; ++tensor) signs[1].Begin({tensor, 1, 0}, 0b11);
  for (TensorId tensor = 0; tensor < kMany; ++tensor) {
    EXPECT_TRUE(signs[0].Begin({tensor, 1, 0}, 0b11)) << tensor;
    signs[0].End({tensor, 1, 0});
  }
  for (TensorId tensor = 0; tensor < kMany; ++tensor) signs[1].End({tensor, 1, 0});
  for (TensorId tensor = 0; tensor < kMany; ++tensor) {
    EXPECT_FALSE(signs[0].Begin({tensor, 1, 0}, 0b11)) << tensor;
    signs[0].End({tensor, 1, 0});
  }
}

TEST_F(BegunSignsTest, WhoIsExcusedIsNotWaitedFor) {
  signs[2].Excuse();
  EXPECT_TRUE(signs[1].Begin(kFirst, 0b111));
  EXPECT_FALSE(signs[1].Begin(kSecond, 0b011)) << "it does not take part";
  signs[2].TakePartAgain();
  EXPECT_FALSE(signs[1].Begin({3, 1, 0}, 0b111));
}

TEST_F(BegunSignsTest, WithoutTheCarrierEverythingEndsAtOnce) {
  signs[0].Excuse();
  EXPECT_TRUE(signs[1].Begin(kFirst, 0b110));
}

TEST_F(BegunSignsTest, AnErrorThatIsKeptIsFetched) {
  signs[0].KeepErrors(true);
  EXPECT_TRUE(signs[1].Begin(kFirst, 0b111));
  signs[0].KeepErrors(false);
  EXPECT_FALSE(signs[1].Begin(kSecond, 0b111));
}

}  // namespace
}  // namespace byteps::machine
