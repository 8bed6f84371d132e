#include "src/machine/room/life_signs.h"

#include <gtest/gtest.h>

#include <memory>

namespace byteps::machine {
namespace {

class LifeSignsTest : public testing::Test {
 protected:
  std::unique_ptr<LifeSignWords> words = std::make_unique<LifeSignWords>();
  LifeSigns first{*words, 0, 3, 3};
  LifeSigns second{*words, 1, 3, 3};
  LifeSigns third{*words, 2, 3, 3};
};

TEST_F(LifeSignsTest, WhoBeatsIsThere) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(first.Beat(0), 0u);
    EXPECT_EQ(second.Beat(0), 0u);
    EXPECT_EQ(third.Beat(0), 0u);
  }
}

TEST_F(LifeSignsTest, WhoStandsStillIsGivenUpAfterSoManyLooks) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(first.Beat(0), 0u);
    second.Beat(0);
  }
  EXPECT_EQ(first.Beat(0), 0b100u);
  EXPECT_EQ(first.Beat(0b100), 0u) << "nobody waits for it any more";
}

TEST_F(LifeSignsTest, WhoWasFrozenItselfGivesUpNobody) {
  for (int i = 0; i < 10; ++i) {
    second.Beat(0);
    third.Beat(0);
  }
  EXPECT_EQ(first.Beat(0), 0u);
}

TEST_F(LifeSignsTest, TheFirstLossIsKept) {
  EXPECT_EQ(first.first_loss().cause, LossCause::kNone);
  second.NoteLoss(2, LossCause::kSilent);
  first.NoteLoss(1, LossCause::kEnded);
  EXPECT_EQ(first.first_loss().rank, 2u);
  EXPECT_EQ(first.first_loss().cause, LossCause::kSilent);
}

}  // namespace
}  // namespace byteps::machine
