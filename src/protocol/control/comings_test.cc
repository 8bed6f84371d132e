// Small parts that have to do with who is here: what the job's end tells, what members are told of
// the view, and whether anybody may come back.
#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

using JobEndTest = PartsTest;

TEST_F(JobEndTest, OnlyTheFirstEndCountsAndEverybodyIsToldOnce) {
  Add(roster, Role::kWorker, 1, Standing::kIn);
  Add(roster, Role::kWorker, 2, Standing::kLeft);
  job_end.End({StatusCode::kPeerLost, "worker 1 was lost"});
  job_end.EndInOrder("all have left");
  for (ConnectionId id : {1, 2}) {
    ASSERT_EQ(To<wire::JobOver>(id).size(), 1u);
    EXPECT_EQ(To<wire::JobOver>(id)[0].text, "worker 1 was lost");
  }
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_EQ(driver.finished[0].code(), StatusCode::kPeerLost);
  EXPECT_EQ(job_end.message().code, StatusCode::kPeerLost);
}

class StandingsTest : public PartsTest {
 protected:
  StandingsTest() { BringIntoForce(JobView(1, 2, 1)); }
};

TEST_F(StandingsTest, WhoIsInTheViewHearsOfItAndGetsItsPlace) {
  Member& late = Add(roster, Role::kWorker, 9, Standing::kWaiting);
  wire::View next = JobView(2, 2, 1);
  next.workers[1] = {5, 3, 9, "h", 9, 0, 1};
  BringIntoForce(next);
  standings.SettleAll();
  EXPECT_EQ(late.standing, Standing::kIn);
  EXPECT_EQ(late.index, 3u) << "its rank";
  EXPECT_EQ(To<wire::Commit>(9).size(), 1u);
  EXPECT_EQ(To<wire::Commit>(2).size(), 1u) << "so that it knows that it is out";
  EXPECT_EQ(roster.Find(2), nullptr);
  EXPECT_EQ(driver.disconnected, std::vector<ConnectionId>{2});
}

TEST_F(StandingsTest, WhoLeavesMayCloseWhenItIsOutOfTheView) {
  departures.Leave(2);
  BringIntoForce(JobView(2, 1, 1));
  standings.SettleAll();
  EXPECT_EQ(To<wire::Leave>(2).size(), 1u);
  EXPECT_EQ(roster.Find(2)->standing, Standing::kLeft);
}

TEST_F(StandingsTest, WhoLeftWhileItWasLetInLeaves) {
  roster.Find(2)->standing = Standing::kLeft;
  standings.Settle(*roster.Find(2));
  EXPECT_TRUE(departures.IsLeaving(2));
}

class ComebackTest : public PartsTest {
 protected:
  ComebackTest() {
    wire::View view = JobView(1, 2, 1);
    for (wire::WorkerInfo& one : view.workers) one.left = true;
    view.workers[1].left = false;
    BringIntoForce(view);
    for (const wire::WorkerInfo& one : view.workers) roster.Remove(one.incarnation);
    gathering.BeginAgain();
  }
};

TEST_F(ComebackTest, TheJobEndsInOrderWhenNoWorkerIsConnected) {
  Member& left = Add(roster, Role::kWorker, 1, Standing::kLeft);
  comeback.EndIfNobodyComesBack();
  EXPECT_TRUE(driver.finished.empty()) << "it may join again";
  roster.Remove(left.connection);
  comeback.EndIfNobodyComesBack();
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_TRUE(driver.finished[0].ok());
}

TEST_F(ComebackTest, AfterARestartLeaversHaveSomeTime) {
  comeback.Wait(2);
  comeback.EndIfNobodyComesBack();
  EXPECT_TRUE(driver.finished.empty());
  Pass(options.silence_end);
  EXPECT_EQ(comeback.NextDue(), now);
  comeback.DoWhatIsDue();
  EXPECT_EQ(driver.finished.size(), 1u);
}

TEST_F(ComebackTest, AllProgramsHaveEnded) {
  wire::View all_left = JobView(2, 2, 1);
  for (wire::WorkerInfo& one : all_left.workers) one.left = true;
  views.Propose(all_left);
  for (uint64_t who : {2, 101}) views.OnPromise(who, {views.term(), 2});
  ASSERT_TRUE(views.Advance().has_value());
  Add(roster, Role::kWorker, 9, Standing::kWaiting, 0);
  ends.Add({"h", 1, 0});
  comeback.EndIfAllEnded();
  EXPECT_TRUE(driver.finished.empty());
  ends.Add({"h", 2, 1});
  comeback.EndIfAllEnded();
  EXPECT_EQ(driver.finished.size(), 1u) << "who waits has nobody to train with";
}

}  // namespace
}  // namespace byteps::protocol
