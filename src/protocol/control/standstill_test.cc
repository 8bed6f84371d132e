// Silence: the coordinator is stopped, its own link is cut, or members say nothing.
#include <gtest/gtest.h>

#include "src/protocol/control/failure_for_test.h"

namespace byteps::protocol {
namespace {

// The coordinator is stopped. It reads what the members said meanwhile after the late tick.
TEST_F(FailureTest, AStandstillIsNotHeldAgainstWhoIsAwayForAMoment) {
  StartJob();
  Lose(12);
  Wait(milliseconds(50), {10, 11, 20, 21});
  StandStill(seconds(3));
  EXPECT_EQ(coordinator().epoch(), 1u);
  Reconnect(12, 112);
  Wait(seconds(2), {10, 11, 112, 20, 21});
  EXPECT_EQ(coordinator().epoch(), 1u);
}

TEST_F(FailureTest, StandstillsInARowAreNotHeldAgainstTheSilent) {
  StartJob();
  for (int i = 0; i < 5; ++i) {
    StandStill(seconds(2));
    Wait(milliseconds(1));
  }
  EXPECT_EQ(coordinator().epoch(), 1u);
  Wait(seconds(2), {10, 11, 12, 20});
  EXPECT_EQ(Workers(ViewOf(10)), (std::vector<uint64_t>{0, 1, 2}));
  EXPECT_FALSE(ViewOf(10).servers[1].alive) << "who says nothing afterwards is lost";
}

TEST_F(FailureTest, AStandstillTakesNoTimeFromAQuorum) {
  StartJob();
  deaf = {11, 12, 20};
  Suspect(10, Role::kServer, 1, wire::Suspicion::kNonsense);
  StandStill(seconds(11));
  EXPECT_TRUE(driver.finished.empty()) << EndText();
  deaf.clear();
  for (ConnectionId id : {11, 12, 20}) Say(id, members.at(id).Greeting());
  EXPECT_EQ(coordinator().epoch(), 2u);
}

// The coordinator's own link was cut, and words that were held up come at different times.
TEST_F(FailureTest, MostAreNotSilentAtTheSameTime) {
  StartJob();
  Wait(milliseconds(1300));
  EXPECT_EQ(coordinator().epoch(), 1u);
  Wait(milliseconds(300), {10, 11, 20});
  EXPECT_EQ(coordinator().epoch(), 1u);
  Wait(seconds(2), {10, 11, 12, 20, 21});
  EXPECT_EQ(coordinator().epoch(), 1u);
}

// The cut is so long that connections end, as they do after a second without an answer.
TEST_F(FailureTest, MostAreNotAwayAtTheSameTime) {
  StartJob();
  Wait(milliseconds(950));
  for (ConnectionId id : {10, 11, 12, 20, 21}) Lose(id);
  Wait(milliseconds(700));
  for (ConnectionId id : {10, 11, 12, 20, 21}) Reconnect(id, id + 100);
  Wait(seconds(2), {110, 111, 112, 120, 121});
  EXPECT_EQ(coordinator().epoch(), 1u);
  EXPECT_TRUE(driver.finished.empty()) << EndText();
}

TEST_F(FailureTest, WhoeverIsHeardAgainAfterALongCutIsNotLost) {
  StartJob();
  Wait(seconds(8));
  Wait(seconds(1), {10});
  Wait(seconds(1), {10, 12, 20});
  Wait(seconds(2), {10, 11, 12, 20, 21});
  EXPECT_EQ(coordinator().epoch(), 1u);
  EXPECT_TRUE(driver.finished.empty()) << EndText();
  EXPECT_TRUE(Said("most processes are silent"));
}

TEST_F(FailureTest, MostThatStaySilentEndTheJob) {
  StartJob();
  Wait(seconds(11), {10});
  EXPECT_TRUE(driver.finished.empty()) << EndText();
  Wait(seconds(12), {10});
  EXPECT_NE(EndText().find("silent for"), std::string::npos) << EndText();
}

TEST_F(FailureTest, WhoIsStillSilentWhenTheOthersAreHeardAgainIsLost) {
  StartJob();
  Wait(milliseconds(1300));
  Wait(seconds(2), {10, 11, 12, 20});
  EXPECT_EQ(Workers(ViewOf(10)), (std::vector<uint64_t>{0, 1, 2}));
  EXPECT_FALSE(ViewOf(10).servers[1].alive);
}

TEST_F(FailureTest, SilenceEvicts) {
  StartJob();
  Wait(milliseconds(850), {10, 11, 20, 21});
  EXPECT_EQ(coordinator().epoch(), 1u);
  Wait(milliseconds(100), {10, 11, 20, 21});
  EXPECT_EQ(Workers(ViewOf(10)), (std::vector<uint64_t>{0, 1}));
}

}  // namespace
}  // namespace byteps::protocol
