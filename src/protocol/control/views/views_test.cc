#include "src/protocol/control/views/views.h"

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

class ViewsTest : public PartsTest {
 protected:
  wire::Report ReportOf(uint64_t who, const wire::View& committed, const wire::View& promised) {
    wire::Report report;
    report.self = JoinOf(Role::kWorker, who);
    report.term = views.term();
    report.committed = committed;
    report.promised_term = promised.epoch == 0 ? 0 : 1;
    report.promised = promised;
    return report;
  }
};

TEST_F(ViewsTest, AViewIsInForceWhenEnoughHavePromisedIt) {
  BringIntoForce(JobView(1, 2, 1));
  EXPECT_EQ(views.next_slot(), 2u);
  wire::View next = JobView(2, 1, 1);
  views.Propose(next);
  EXPECT_EQ(To<wire::Propose>(2).size(), 1u) << "who is out of it has a vote, too";
  EXPECT_FALSE(views.IsProposed(2));
  views.OnPromise(1, {views.term(), 2});
  EXPECT_FALSE(views.Advance().has_value());
  EXPECT_EQ(views.in_force().epoch, 1u);
  views.OnPromise(101, {views.term(), 2});
  std::optional<Views::NewView> came = views.Advance();
  ASSERT_TRUE(came.has_value());
  EXPECT_FALSE(came->found);
  EXPECT_EQ(came->before.epoch, 1u);
  EXPECT_EQ(views.in_force(), next);
  EXPECT_EQ(views.next_slot(), 2u) << "slots are not used again";
}

TEST_F(ViewsTest, AFirstViewIsDroppedWhenOneOfItsMembersGoes) {
  Add(roster, Role::kWorker, 1, Presence::kWaiting);
  uint64_t term = views.term();
  wire::View first = JobView(1, 1, 1);
  views.Propose(first);
  views.Withdraw(101);
  EXPECT_FALSE(views.IsChanging());
  EXPECT_GT(views.term(), term);
  EXPECT_TRUE(views.TellsNothing(ReportOf(1, {}, first)));
}

TEST_F(ViewsTest, InRecoveryWhatWasPromisedIsCompletedAndThenReadAgain) {
  wire::View first = JobView(1, 2, 1);
  wire::View second = JobView(2, 1, 1);
  for (uint64_t who : {1, 2}) Add(roster, Role::kWorker, who, Presence::kIn);
  Add(roster, Role::kServer, 101, Presence::kIn);
  views.Recover(uint64_t{7} << 32);
  EXPECT_GT(views.term(), uint64_t{7} << 32);
  EXPECT_EQ(To<wire::Query>(1).size(), 1u);
  views.OnReport(*roster.Find(1), ReportOf(1, first, second));
  EXPECT_FALSE(views.Advance().has_value());
  views.OnReport(*roster.Find(2), ReportOf(2, first, {}));
  EXPECT_FALSE(views.Advance().has_value());
  EXPECT_TRUE(views.IsChanging());
  views.OnPromise(1, {views.term(), 2});
  views.OnPromise(2, {views.term(), 2});
  std::optional<Views::NewView> came = views.Advance();
  ASSERT_TRUE(came.has_value()) << "of the two voters of the second view the first has reported";
  EXPECT_TRUE(came->found);
  EXPECT_EQ(views.in_force(), second);
  EXPECT_TRUE(views.IsInherited());
  EXPECT_EQ(To<wire::Commit>(1).size(), 1u);
  EXPECT_TRUE(To<wire::Commit>(2).empty()) << "it is not in it";
}

TEST_F(ViewsTest, WithoutAQuorumTheJobEndsAndSaysWhoIsMissing) {
  BringIntoForce(JobView(1, 2, 1));
  views.Propose(JobView(2, 1, 1));
  EXPECT_EQ(views.NextDue(), now + options.quorum_patience);
  EXPECT_FALSE(views.ReasonToEnd().has_value());
  Pass(options.quorum_patience);
  ASSERT_TRUE(views.ReasonToEnd().has_value());
  EXPECT_NE(views.ReasonToEnd()->message().find("cannot see worker 0"), std::string::npos);
}

}  // namespace
}  // namespace byteps::protocol
