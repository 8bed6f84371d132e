#include "src/protocol/control/changes/losses.h"

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

class LossesTest : public PartsTest {
 protected:
  LossesTest() {
    options.min_workers = 1;
    BringIntoForce(JobView(1, 2, 2));
    losses.OnView();
  }
};

TEST_F(LossesTest, AMemberIsLostOnceAndItsJobGoesOnWhileItHasEnough) {
  losses.Lose(1, "it is gone", false);
  losses.Lose(1, "it is gone", false);
  EXPECT_EQ(driver.reports.size(), 1u);
  EXPECT_TRUE(departures.IsLost(1));
  EXPECT_TRUE(departures.dead().empty());
  EXPECT_TRUE(driver.finished.empty());
  losses.Lose(2, "it is gone, too", true);
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_NE(driver.finished[0].message().find("the job needs 1 workers"), std::string::npos);
}

TEST_F(LossesTest, WhoLeavesIsNotMissed) {
  departures.Leave(1);
  losses.Lose(1, "it is gone", true);
  EXPECT_FALSE(departures.IsLost(1));
  EXPECT_EQ(departures.dead(), Incarnations{1}) << "but it promises nothing any more";
}

TEST_F(LossesTest, WordsOfAnotherGenerationOrOfAnotherLifeDoNotCount) {
  const Member* from = roster.Find(1);
  wire::Suspect suspect{Role::kWorker, 1, 0, wire::Suspicion::kNonsense, "bytes", 7};
  losses.OnSuspect(from, suspect);
  suspect.generation = 1;
  suspect.incarnation = 99;
  losses.OnSuspect(from, suspect);
  EXPECT_TRUE(departures.NobodyGoes());
  suspect.incarnation = 2;
  losses.OnSuspect(from, suspect);
  EXPECT_TRUE(departures.IsLost(2));
}

TEST_F(LossesTest, WhoseConnectionClosedIsAsked) {
  losses.OnSuspect(roster.Find(1), {Role::kServer, 1, 0, wire::Suspicion::kClosed, "reset"});
  EXPECT_EQ(To<wire::Query>(102).size(), 1u);
  EXPECT_TRUE(departures.NobodyGoes());
}

TEST_F(LossesTest, SilentProcessesThatWaitAreGivenUpAndReturned) {
  Add(roster, Role::kWorker, 9, Presence::kWaiting);
  losses.Watch();
  Pass(options.silence_end / 2);
  for (uint64_t who : {1, 2, 101, 102}) suspicions.Heard(who, now);
  EXPECT_TRUE(losses.Judge().empty());
  Pass(options.silence_end / 2);
  for (uint64_t who : {1, 2, 101, 102}) suspicions.Heard(who, now);
  EXPECT_EQ(losses.Judge(), std::vector<uint64_t>{9});
  EXPECT_TRUE(departures.NobodyGoes());
}

TEST_F(LossesTest, TheLastServerThatIsLeftMayBeSilentForLonger) {
  losses.Lose(101, "it is gone", false);
  Pass(options.silence_evict);
  for (uint64_t who : {1, 2}) suspicions.Heard(who, now);
  losses.Judge();
  EXPECT_FALSE(departures.IsLost(102));
  Pass(options.silence_end);
  for (uint64_t who : {1, 2}) suspicions.Heard(who, now);
  losses.Judge();
  EXPECT_TRUE(departures.IsLost(102));
}

TEST_F(LossesTest, WithoutAServerTheJobWaitsAndThenSaysWhichWasTheLast) {
  losses.Lose(101, "first", false);
  losses.Lose(102, "second", false);
  wire::View none = JobView(2, 2, 2);
  for (wire::ServerInfo& one : none.servers) one.alive = false;
  BringIntoForce(none);
  losses.OnView();
  EXPECT_EQ(driver.reports.back(), "no server is left; the job waits for one to be started again");
  Pass(options.server_patience);
  ASSERT_TRUE(losses.ReasonToEnd().has_value());
  EXPECT_NE(losses.ReasonToEnd()->message().find("was lost: second"), std::string::npos);
}

TEST_F(LossesTest, AProcessThatALauncherSawEndIsLostAtOnce) {
  ends.Add({"h", 2, 1});
  losses.TakeEnds();
  EXPECT_TRUE(departures.IsLost(2));
  EXPECT_EQ(departures.dead(), Incarnations{2});
}

}  // namespace
}  // namespace byteps::protocol
