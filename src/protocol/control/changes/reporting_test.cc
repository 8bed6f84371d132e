#include "src/protocol/control/changes/reporting.h"

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

class ReportingTest : public PartsTest {
 protected:
  wire::Report ReportOf(uint64_t who, uint64_t epoch, uint64_t term) {
    wire::Report report;
    report.self = JoinOf(Role::kWorker, who);
    report.term = term;
    if (epoch > 0) report.committed = JobView(epoch, 2, 1);
    return report;
  }
};

TEST_F(ReportingTest, AMemberIsBroughtUpToDateOverItsNewConnection) {
  BringIntoForce(JobView(3, 2, 1));
  OnReport(state, 50, ReportOf(2, 2, views.term()));
  EXPECT_EQ(roster.Find(2)->connection, 50u);
  EXPECT_EQ(To<wire::Commit>(50).size(), 1u);
  OnReport(state, 51, ReportOf(2, 3, views.term()));
  EXPECT_TRUE(To<wire::Commit>(51).empty()) << "it has this view";
}

TEST_F(ReportingTest, WhoIsOutIsToldSoAndCutOff) {
  BringIntoForce(JobView(3, 2, 1));
  OnReport(state, 50, ReportOf(9, 2, views.term()));
  EXPECT_EQ(To<wire::Commit>(50).size(), 1u);
  EXPECT_EQ(driver.disconnected, std::vector<ConnectionId>{50});
}

TEST_F(ReportingTest, ANewerViewOrAHigherTermIsAskedAbout) {
  OnReport(state, 50, ReportOf(1, 2, 7));
  EXPECT_TRUE(views.IsRecovering());
  uint64_t term = views.term();
  EXPECT_EQ(To<wire::Query>(50).back().term, term);
  OnReport(state, 50, ReportOf(1, 2, term | 1));
  EXPECT_GT(views.term(), term) << "another coordinator counts alike";
}

TEST_F(ReportingTest, WhoHasNothingToTellJoins) {
  OnReport(state, 50, ReportOf(1, 0, views.term()));
  EXPECT_EQ(roster.Find(1)->presence, Presence::kWaiting);
}

TEST_F(ReportingTest, WhoHasLeftMayClose) {
  wire::View view = JobView(3, 2, 1);
  view.workers[1].left = true;
  BringIntoForce(view);
  OnReport(state, 50, ReportOf(2, 3, views.term()));
  EXPECT_EQ(To<wire::Leave>(50).size(), 1u);
  EXPECT_EQ(roster.Find(2)->presence, Presence::kLeft);
}

TEST_F(ReportingTest, AWorkerThatIsBeingLetInWaitsOverItsNewConnection) {
  BringIntoForce(JobView(3, 2, 1));
  wire::View next = JobView(4, 2, 1);
  next.workers.push_back({2, 2, 9, "h", 9, 0, 1});
  views.Propose(next);
  wire::Report report = ReportOf(9, 0, views.term());
  report.promised = next;
  OnReport(state, 50, report);
  ASSERT_NE(roster.Find(9), nullptr);
  EXPECT_EQ(roster.Find(9)->presence, Presence::kWaiting);
  EXPECT_EQ(To<wire::Propose>(50).size(), 1u);
}

TEST_F(ReportingTest, AMemberThatWasAwayHearsOfTheProposal) {
  BringIntoForce(JobView(3, 2, 1));
  views.Propose(JobView(4, 1, 1));
  OnReport(state, 50, ReportOf(2, 3, views.term()));
  EXPECT_EQ(To<wire::Propose>(50).size(), 1u);
  EXPECT_EQ(driver.disconnected, std::vector<ConnectionId>{2}) << "its earlier connection";
}

// This worker may be the only one that heard the answer.
TEST_F(ReportingTest, WhoHasPassedASyncPointLetsTheOthersGoOn) {
  BringIntoForce(JobView(3, 2, 1));
  syncs.Reach(1, {1, 1});
  wire::Report report = ReportOf(2, 3, views.term());
  report.syncs = 1;
  OnReport(state, 50, report);
  ASSERT_EQ(To<wire::GoOn>(1).size(), 1u);
  EXPECT_EQ(To<wire::GoOn>(1)[0], (wire::GoOn{1, 1}));
}

// The worker says again over its new connection where it is.
TEST_F(ReportingTest, WhatItWaitedForIsForgottenWithItsConnection) {
  BringIntoForce(JobView(3, 2, 1));
  for (uint64_t who : {1, 2}) syncs.Reach(who, {1, 1});
  EXPECT_TRUE(syncs.AllWait(views.in_force(), departures));
  OnReport(state, 2, ReportOf(2, 3, views.term()));
  EXPECT_TRUE(syncs.AllWait(views.in_force(), departures)) << "the same connection";
  OnReport(state, 50, ReportOf(2, 3, views.term()));
  EXPECT_FALSE(syncs.AllWait(views.in_force(), departures));
}

TEST_F(ReportingTest, WhenTheJobIsOverOnlyWhoWasLeftBehindIsToldTheView) {
  wire::View view = JobView(3, 2, 1);
  view.workers[1].left = true;
  BringIntoForce(view);
  TellIfLeftBehind(state, 50, ReportOf(9, 2, views.term() + 5));
  ASSERT_EQ(To<wire::Commit>(50).size(), 1u);
  EXPECT_EQ(To<wire::Commit>(50)[0].term, views.term() + 5) << "one that it obeys";
  for (uint64_t who : {1, 2}) TellIfLeftBehind(state, 60, ReportOf(who, 2, views.term()));
  wire::Report server = ReportOf(199, 2, views.term());
  server.self.role = Role::kServer;
  TellIfLeftBehind(state, 60, server);
  EXPECT_TRUE(To<wire::Commit>(60).empty());
}

}  // namespace
}  // namespace byteps::protocol
