// Who comes: with a join, or with a report; and the view that follows.
#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

using JoiningTest = PartsTest;

TEST_F(JoiningTest, WhoMayJoinWaitsAndWhoMayNotIsToldWhy) {
  joining.OnJoin(1, JoinOf(Role::kWorker, 1, 0));
  EXPECT_EQ(roster.Find(1)->standing, Standing::kWaiting);
  EXPECT_EQ(gathering.worker_count(), 2u);
  wire::Join wrong = JoinOf(Role::kWorker, 2, 1);
  wrong.version = "2";
  joining.OnJoin(2, wrong);
  ASSERT_EQ(To<wire::Refused>(2).size(), 1u);
  EXPECT_EQ(roster.Find(2), nullptr);
  EXPECT_EQ(driver.reports.size(), 1u);
  joining.OnJoin(1, JoinOf(Role::kWorker, 1, 0));
  EXPECT_EQ(To<wire::Refused>(1)[0].text, "the job refused this process: it has joined already");
}

TEST_F(JoiningTest, AMemberThatNeverHeardOfItsViewHearsOfIt) {
  BringIntoForce(JobView(1, 2, 1));
  joining.OnJoin(50, JoinOf(Role::kWorker, 2, 1));
  EXPECT_EQ(To<wire::Commit>(50).size(), 1u);
  EXPECT_EQ(driver.disconnected, std::vector<ConnectionId>{2}) << "its earlier connection";
}

TEST_F(JoiningTest, AServerAtTheSameAddressTakesItsPredecessorsPlace) {
  wire::View view = JobView(1, 2, 2);
  view.servers[1].address = "h:7";
  BringIntoForce(view);
  options.server_count = 2;
  wire::Join join = JoinOf(Role::kServer, 202);
  join.server_count = 2;
  join.address = "h:7";
  joining.OnJoin(50, join);
  EXPECT_TRUE(departures.IsLost(102));
  EXPECT_EQ(departures.dead(), Incarnations{102}) << "only who has ended gives its address away";
  EXPECT_EQ(roster.Find(202)->index, 1u);
}

TEST_F(JoiningTest, WhileItIsAskedWhatWasDecidedNobodyIsJudged) {
  views.Recover(0);
  wire::Join wrong = JoinOf(Role::kWorker, 2, 1);
  wrong.version = "2";
  joining.OnJoin(2, wrong);
  EXPECT_EQ(To<wire::Query>(2).size(), 1u);
  EXPECT_TRUE(To<wire::Refused>(2).empty());
}

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
  reporting.OnReport(50, ReportOf(2, 2, views.term()));
  EXPECT_EQ(roster.Find(2)->connection, 50u);
  EXPECT_EQ(To<wire::Commit>(50).size(), 1u);
  reporting.OnReport(51, ReportOf(2, 3, views.term()));
  EXPECT_TRUE(To<wire::Commit>(51).empty()) << "it has this view";
}

TEST_F(ReportingTest, WhoIsOutIsToldSoAndCutOff) {
  BringIntoForce(JobView(3, 2, 1));
  reporting.OnReport(50, ReportOf(9, 2, views.term()));
  EXPECT_EQ(To<wire::Commit>(50).size(), 1u);
  EXPECT_EQ(driver.disconnected, std::vector<ConnectionId>{50});
}

TEST_F(ReportingTest, ANewerViewOrAHigherTermIsAskedAbout) {
  reporting.OnReport(50, ReportOf(1, 2, 7));
  EXPECT_TRUE(views.IsRecovering());
  uint64_t term = views.term();
  EXPECT_EQ(To<wire::Query>(50).back().term, term);
  reporting.OnReport(50, ReportOf(1, 2, term | 1));
  EXPECT_GT(views.term(), term) << "another coordinator counts alike";
}

TEST_F(ReportingTest, WhoHasNothingToTellJoins) {
  reporting.OnReport(50, ReportOf(1, 0, views.term()));
  EXPECT_EQ(roster.Find(1)->standing, Standing::kWaiting);
}

class SuccessionTest : public PartsTest {
 protected:
  SuccessionTest() {
    options.min_workers = 1;
    BringIntoForce(JobView(1, 2, 1));
  }
  void Promise() {
    for (uint64_t who : {1, 2, 101}) {
      views.OnPromise(who, {views.term(), views.in_force().epoch + 1});
    }
  }
  using Step = Succession::Step;
};

TEST_F(SuccessionTest, ALossMakesAViewWithoutIt) {
  EXPECT_EQ(succession.Advance(), Step::kNone);
  losses.Lose(2, "it is gone", false);
  EXPECT_EQ(succession.Advance(), Step::kDone);
  EXPECT_EQ(succession.Advance(), Step::kNone) << "nobody has promised";
  Promise();
  EXPECT_EQ(succession.Advance(), Step::kDone);
  EXPECT_EQ(views.in_force().epoch, 2u);
  EXPECT_EQ(views.in_force().workers.size(), 1u);
  EXPECT_TRUE(departures.NobodyGoes());
}

TEST_F(SuccessionTest, AllAtASyncPointGoOnWhenNobodyWaitsAndLetInWhoDoes) {
  for (uint64_t who : {1, 2}) syncs.Reach(who, {1, 1});
  EXPECT_EQ(succession.Advance(), Step::kNone);
  EXPECT_EQ(To<wire::GoOn>(1).size(), 1u);
  Add(roster, Role::kWorker, 9, Standing::kWaiting);
  syncs.Reach(1, {1, 2});
  EXPECT_EQ(succession.Advance(), Step::kNone) << "worker 2 has operations open";
  syncs.Reach(2, {1, 2});
  EXPECT_EQ(succession.Advance(), Step::kDone);
  Promise();
  views.OnPromise(9, {views.term(), 2});
  EXPECT_EQ(succession.Advance(), Step::kDone);
  EXPECT_EQ(views.in_force().generation, 2u);
  EXPECT_EQ(views.in_force().workers.back().slot, 2u);
}

TEST_F(SuccessionTest, WhenAllHaveLeftItGathersAgain) {
  for (uint64_t who : {1, 2}) departures.Leave(who);
  EXPECT_EQ(succession.Advance(), Step::kDone);
  Promise();
  EXPECT_EQ(succession.Advance(), Step::kDone);
  EXPECT_TRUE(gathering.IsOn());
  EXPECT_EQ(roster.Find(1)->standing, Standing::kLeft);
}

}  // namespace
}  // namespace byteps::protocol
