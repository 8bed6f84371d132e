#include "src/protocol/control/changes/member_notices.h"

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

class MemberNoticesTest : public PartsTest {
 protected:
  MemberNoticesTest() { BringIntoForce(JobView(1, 2, 1)); }
};

TEST_F(MemberNoticesTest, WhoIsInTheViewHearsOfItAndGetsItsPlace) {
  Member& late = Add(roster, Role::kWorker, 9, Presence::kWaiting);
  wire::View next = JobView(2, 2, 1);
  next.workers[1] = {5, 3, 9, "h", 9, 0, 1};
  BringIntoForce(next);
  notices.SettleAll();
  EXPECT_EQ(late.presence, Presence::kIn);
  EXPECT_EQ(late.index, 3u) << "its rank";
  EXPECT_EQ(To<wire::Commit>(9).size(), 1u);
  EXPECT_EQ(To<wire::Commit>(2).size(), 1u) << "so that it knows that it is out";
  EXPECT_EQ(roster.Find(2), nullptr);
  EXPECT_EQ(driver.disconnected, std::vector<ConnectionId>{2});
}

TEST_F(MemberNoticesTest, WhoLeavesMayCloseWhenItIsOutOfTheView) {
  departures.Leave(2);
  BringIntoForce(JobView(2, 1, 1));
  notices.SettleAll();
  EXPECT_EQ(To<wire::Leave>(2).size(), 1u);
  EXPECT_EQ(roster.Find(2)->presence, Presence::kLeft);
}

TEST_F(MemberNoticesTest, WhoLeftWhileItWasLetInLeaves) {
  roster.Find(2)->presence = Presence::kLeft;
  notices.Settle(*roster.Find(2));
  EXPECT_TRUE(departures.IsLeaving(2));
}

TEST_F(MemberNoticesTest, WhoWaitsHearsNothing) {
  Member& waits = Add(roster, Role::kWorker, 9, Presence::kWaiting);
  notices.Settle(waits);
  EXPECT_TRUE(driver.sent.empty());
  EXPECT_EQ(waits.presence, Presence::kWaiting);
}

TEST_F(MemberNoticesTest, WhoIsOutWithAnotherOfItsContributorIsToldOfWhich) {
  BringIntoForce(JobView(2, 4, 1));
  for (uint64_t who : {3, 4}) {
    roster.Find(who)->join.contributor_size = 2;
    departures.Lose(who, "worker 2 was lost: closed");
  }
  BringIntoForce(JobView(3, 2, 1));
  notices.SettleAll();
  ASSERT_EQ(To<wire::JobOver>(4).size(), 1u);
  EXPECT_EQ(To<wire::JobOver>(4)[0].code, StatusCode::kEvicted);
  EXPECT_NE(To<wire::JobOver>(4)[0].text.find("worker 2 was lost: closed"), std::string::npos);
  Member& again = Add(roster, Role::kWorker, 4, Presence::kIn);
  again.join.contributor_size = 2;
  notices.Begin();
  driver.sent.clear();
  notices.TellOut(again);
  EXPECT_TRUE(To<wire::JobOver>(4).empty()) << "that was in an earlier generation";
  EXPECT_EQ(To<wire::Commit>(4).size(), 1u);
}

TEST_F(MemberNoticesTest, OneProcessByItselfNeedsNoMoreThanTheView) {
  departures.Lose(2, "closed");
  BringIntoForce(JobView(2, 1, 1));
  notices.SettleAll();
  EXPECT_TRUE(To<wire::JobOver>(2).empty());
  EXPECT_EQ(To<wire::Commit>(2).size(), 1u);
}

TEST_F(MemberNoticesTest, WhoLeftBeforeIsLeftAlone) {
  Add(roster, Role::kWorker, 9, Presence::kLeft);
  notices.SettleAll();
  EXPECT_TRUE(To<wire::Leave>(9).empty());
  EXPECT_NE(roster.Find(9), nullptr) << "its lease";
}

}  // namespace
}  // namespace byteps::protocol
