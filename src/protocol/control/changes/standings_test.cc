#include "src/protocol/control/changes/standings.h"

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

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

TEST_F(StandingsTest, WhoWaitsHearsNothing) {
  Member& waits = Add(roster, Role::kWorker, 9, Standing::kWaiting);
  standings.Settle(waits);
  EXPECT_TRUE(driver.sent.empty());
  EXPECT_EQ(waits.standing, Standing::kWaiting);
}

TEST_F(StandingsTest, WhoIsOutWithAnotherOfItsContributorIsToldOfWhich) {
  BringIntoForce(JobView(2, 4, 1));
  for (uint64_t who : {3, 4}) {
    roster.Find(who)->join.contributor_size = 2;
    departures.Lose(who, "worker 2 was lost: closed");
  }
  BringIntoForce(JobView(3, 2, 1));
  standings.SettleAll();
  ASSERT_EQ(To<wire::JobOver>(4).size(), 1u);
  EXPECT_EQ(To<wire::JobOver>(4)[0].code, StatusCode::kEvicted);
  EXPECT_NE(To<wire::JobOver>(4)[0].text.find("worker 2 was lost: closed"), std::string::npos);
  Member& again = Add(roster, Role::kWorker, 4, Standing::kIn);
  again.join.contributor_size = 2;
  standings.Begin();
  driver.sent.clear();
  standings.TellOut(again);
  EXPECT_TRUE(To<wire::JobOver>(4).empty()) << "that was in an earlier generation";
  EXPECT_EQ(To<wire::Commit>(4).size(), 1u);
}

TEST_F(StandingsTest, OneProcessByItselfNeedsNoMoreThanTheView) {
  departures.Lose(2, "closed");
  BringIntoForce(JobView(2, 1, 1));
  standings.SettleAll();
  EXPECT_TRUE(To<wire::JobOver>(2).empty());
  EXPECT_EQ(To<wire::Commit>(2).size(), 1u);
}

TEST_F(StandingsTest, WhoLeftBeforeIsLeftAlone) {
  Add(roster, Role::kWorker, 9, Standing::kLeft);
  standings.SettleAll();
  EXPECT_TRUE(To<wire::Leave>(9).empty());
  EXPECT_NE(roster.Find(9), nullptr) << "its lease";
}

}  // namespace
}  // namespace byteps::protocol
