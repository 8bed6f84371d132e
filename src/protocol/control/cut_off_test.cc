// Members behind a broken network, and several that are gone at once.
#include <gtest/gtest.h>

#include "src/protocol/control/failure_for_test.h"

namespace byteps::protocol {
namespace {

using wire::Suspicion;

class CutOffTest : public FailureTest {
 protected:
  void CutOff(ConnectionId id) {
    coordinator().OnCutOff(id, "Connection timed out", now);
    Pump();
  }
  void AllServersEnd(Duration notice_after);
  void Exit(ConnectionId from, Role role, uint32_t index) {
    Say(from, wire::Suspect{role, index, 0, Suspicion::kExited, "it has ended"});
  }
};

// If nothing comes through a connection, this says nothing of the process behind it.
TEST_F(CutOffTest, WhoIsNeededAndComesBackInTimeIsNotLost) {
  options.min_workers = 0;
  StartJob();
  CutOff(12);
  Suspect(20, Role::kWorker, 2, Suspicion::kUnreachable);
  Wait(seconds(4), {10, 11, 20, 21});
  EXPECT_TRUE(driver.finished.empty()) << EndText();
  Reconnect(12, 112);
  Wait(seconds(6), {10, 11, 112, 20, 21});
  EXPECT_TRUE(driver.finished.empty()) << EndText();
  EXPECT_EQ(coordinator().epoch(), 1u);
}

TEST_F(CutOffTest, WhoIsNeededAndStaysAwayEndsTheJob) {
  options.min_workers = 0;
  StartJob();
  CutOff(12);
  Wait(milliseconds(5100), {10, 11, 20, 21});
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_NE(EndText().find("worker 2"), std::string::npos) << EndText();
  EXPECT_NE(EndText().find("silent"), std::string::npos) << EndText();
  EXPECT_NE(EndText().find("Connection timed out"), std::string::npos) << EndText();
}

TEST_F(CutOffTest, WhoIsNotNeededIsLostWhenItIsSilent) {
  StartJob();
  CutOff(12);
  Wait(milliseconds(800), {10, 11, 20, 21});
  EXPECT_EQ(coordinator().epoch(), 1u);
  Wait(milliseconds(200), {10, 11, 20, 21});
  EXPECT_EQ(Workers(ViewOf(10)), (std::vector<uint64_t>{0, 1}));
}

TEST_F(CutOffTest, AProcessThatHasEndedIsLostWhetherCutOffOrNot) {
  StartJob();
  CutOff(12);
  Exit(90, Role::kWorker, 2);
  EXPECT_EQ(Workers(ViewOf(10)), (std::vector<uint64_t>{0, 1}));
}

// The member is back, but the other one still cannot reach it.
TEST_F(CutOffTest, WhatDidNotCountThenCountsWhenItIsSaidAgain) {
  StartJob();
  CutOff(21);
  Suspect(10, Role::kServer, 1, Suspicion::kUnreachable);
  Wait(milliseconds(100), {10, 11, 12, 20});
  Reconnect(21, 121);
  EXPECT_EQ(coordinator().epoch(), 1u);
  Suspect(10, Role::kServer, 1, Suspicion::kUnreachable);
  EXPECT_EQ(coordinator().epoch(), 2u);
  EXPECT_FALSE(ViewOf(10).servers[1].alive);
}

// Between two generations only the servers have a vote. The second server ends while the
// coordinator asks it about the end of the first.
void CutOffTest::AllServersEnd(Duration notice_after) {
  StartJob();
  for (ConnectionId worker : {10, 11, 12}) Say(worker, wire::Leave{});
  ASSERT_TRUE(driver.finished.empty()) << EndText();
  deaf = {20, 21};
  for (uint32_t i : {0, 1}) {
    Lose(20 + i);
    Wait(notice_after);
    Exit(90 + i, Role::kServer, i);
  }
  Say(30, Join(Role::kServer, 0));
  Say(31, Join(Role::kServer, 1));
  for (uint32_t i : {0, 1, 2}) Say(40 + i, Join(Role::kWorker, static_cast<int32_t>(i)));
  Wait(seconds(11), {10, 11, 12, 30, 31, 40, 41, 42});
  EXPECT_TRUE(driver.finished.empty()) << EndText();
  EXPECT_EQ(ViewOf(40).workers.size(), 3u);
  EXPECT_TRUE(ViewOf(40).servers[0].alive && ViewOf(40).servers[1].alive);
}

TEST_F(CutOffTest, AllServersMayEndWhileNoWorkerIsThere) { AllServersEnd(Duration::zero()); }

// The second server has been taken for lost when the launcher says that it has ended.
TEST_F(CutOffTest, ThatOneHasEndedMayBeHeardLate) { AllServersEnd(milliseconds(150)); }

// The coordinator's process stays for a moment, because a member that finds nobody would look for
// it in vain.
TEST_F(CutOffTest, WhoIsAwayWhenTheJobEndsIsToldWhenItIsBack) {
  options.min_workers = 0;
  StartJob();
  Lose(12);
  EXPECT_FALSE(coordinator().HasToTellAnyone()) << "the job goes on";
  Suspect(10, Role::kWorker, 0, Suspicion::kGaveUp);
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_TRUE(coordinator().HasToTellAnyone());
  Reconnect(12, 112);
  ASSERT_EQ(To<wire::JobOver>(112).size(), 1u);
  EXPECT_FALSE(coordinator().HasToTellAnyone());
}

TEST_F(CutOffTest, NobodyWaitsToTellAProcessThatHasEnded) {
  options.min_workers = 0;
  StartJob();
  Lose(12);
  Suspect(10, Role::kWorker, 0, Suspicion::kGaveUp);
  const wire::WorkerInfo& away = coordinator().view().workers[2];
  coordinator().OnProcessEnded({away.host, away.process, away.rank}, now);
  EXPECT_FALSE(coordinator().HasToTellAnyone());
}

}  // namespace
}  // namespace byteps::protocol
