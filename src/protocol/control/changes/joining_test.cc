#include "src/protocol/control/changes/joining.h"

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

using JoiningTest = PartsTest;

TEST_F(JoiningTest, WhoMayJoinWaitsAndWhoMayNotIsToldWhy) {
  OnJoin(state, 1, JoinOf(Role::kWorker, 1, 0));
  EXPECT_EQ(roster.Find(1)->presence, Presence::kWaiting);
  EXPECT_EQ(gathering.worker_count(), 2u);
  wire::Join wrong = JoinOf(Role::kWorker, 2, 1);
  wrong.version = "2";
  OnJoin(state, 2, wrong);
  ASSERT_EQ(To<wire::Refused>(2).size(), 1u);
  EXPECT_EQ(roster.Find(2), nullptr);
  EXPECT_EQ(driver.reports.size(), 1u);
  OnJoin(state, 1, JoinOf(Role::kWorker, 1, 0));
  EXPECT_EQ(To<wire::Refused>(1)[0].text, "the job refused this process: it has joined already");
}

TEST_F(JoiningTest, AMemberThatNeverHeardOfItsViewHearsOfIt) {
  BringIntoForce(JobView(1, 2, 1));
  OnJoin(state, 50, JoinOf(Role::kWorker, 2, 1));
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
  OnJoin(state, 50, join);
  EXPECT_TRUE(departures.IsLost(102));
  EXPECT_EQ(departures.dead(), Incarnations{102}) << "only who has ended gives its address away";
  EXPECT_EQ(roster.Find(202)->index, 1u);
}

TEST_F(JoiningTest, WhileItIsAskedWhatWasDecidedNobodyIsJudged) {
  views.Recover(0);
  wire::Join wrong = JoinOf(Role::kWorker, 2, 1);
  wrong.version = "2";
  OnJoin(state, 2, wrong);
  EXPECT_EQ(To<wire::Query>(2).size(), 1u);
  EXPECT_TRUE(To<wire::Refused>(2).empty());
}

TEST_F(JoiningTest, WhoHasLeftMayJoinAgainOverItsConnection) {
  BringIntoForce(JobView(1, 2, 1));
  gathering.BeginAgain();
  roster.Find(2)->presence = Presence::kLeft;
  wire::Join again = JoinOf(Role::kWorker, 22, 1);
  OnJoin(state, 2, again);
  EXPECT_TRUE(To<wire::Refused>(2).empty());
  ASSERT_NE(roster.Find(22), nullptr);
  EXPECT_EQ(roster.Find(22)->connection, 2u);
  EXPECT_EQ(roster.Find(2), nullptr);
}

TEST_F(JoiningTest, WhenItIsKnownWhatThereIsToJoinAllWhoWaitAreJudged) {
  views.Recover(0);
  wire::Join wrong = JoinOf(Role::kWorker, 2, 1);
  wrong.version = "2";
  OnJoin(state, 2, wrong);
  OnJoin(state, 1, JoinOf(Role::kWorker, 1, 0));
  wire::View found = JobView(3, 1, 1);
  found.workers[0].incarnation = 9;
  wire::Report report;
  report.self = JoinOf(Role::kWorker, 9);
  report.term = views.term();
  report.committed = found;
  views.OnReport(Add(roster, Role::kWorker, 9, Presence::kIn), report);
  ASSERT_TRUE(views.Advance().has_value());
  gathering.Expect(2);
  JudgeAllWhoWait(state);
  EXPECT_EQ(To<wire::Refused>(2).size(), 1u);
  EXPECT_EQ(roster.Find(1)->presence, Presence::kWaiting);
  EXPECT_TRUE(To<wire::Refused>(9).empty()) << "it does not wait";
}

}  // namespace
}  // namespace byteps::protocol
