#include "src/protocol/control/views/recovery.h"

#include <gtest/gtest.h>

#include "src/protocol/control/parts_for_test.h"
#include "src/protocol/control/views/coordinator_mistakes_for_test.h"

namespace byteps::protocol {
namespace {

wire::Report ReportOf(uint64_t who, uint64_t term, const wire::View& committed,
                      uint64_t promised_term = 0, const wire::View& promised = {}) {
  wire::Report report;
  report.self.incarnation = who;
  report.term = term;
  report.committed = committed;
  report.promised_term = promised_term;
  report.promised = promised;
  return report;
}

TEST(RecoveryTest, OnlyReportsUnderItsTermCountAndTheNewestViewDecides) {
  wire::View first = JobView(1, 2, 1);
  wire::View second = JobView(2, 2, 1);
  second.workers.pop_back();
  Recovery recovery(7, {}, kCoordinatorRules);
  recovery.OnReport(ReportOf(1, 6, first));
  recovery.OnReport(ReportOf(2, 6, first));
  EXPECT_FALSE(recovery.HasQuorum({}));
  recovery.OnReport(ReportOf(1, 7, first));
  recovery.OnReport(ReportOf(2, 7, first));
  EXPECT_TRUE(recovery.HasQuorum({}));
  recovery.OnReport(ReportOf(101, 6, second));
  EXPECT_EQ(recovery.latest(), second);
  EXPECT_TRUE(recovery.HasQuorum({})) << "half, with the lowest";
}

// The same holds if all members that could have told are dead, because nobody knows what they had
// promised.
TEST(RecoveryTest, WithoutAReportThereIsNoQuorum) {
  Recovery recovery(7, JobView(1, 2, 1), kCoordinatorRules);
  EXPECT_FALSE(recovery.HasQuorum({}));
  EXPECT_FALSE(recovery.HasQuorum({1, 2, 101}));
}

TEST(RecoveryTest, ThePromiseOfTheHighestTermIsCompleted) {
  wire::View first = JobView(1, 3, 0);
  wire::View one = JobView(2, 2, 0);
  wire::View other = JobView(2, 1, 0);
  Recovery recovery(9, {}, kCoordinatorRules);
  recovery.OnReport(ReportOf(1, 9, first, 3, one));
  recovery.OnReport(ReportOf(2, 9, first, 4, other));
  ASSERT_TRUE(recovery.HasQuorum({}));
  EXPECT_EQ(recovery.Promised(), other);
  recovery.OnCommitted(other);
  EXPECT_EQ(recovery.latest(), other);
  EXPECT_FALSE(recovery.Promised().has_value());
}

// Nobody had a vote before the first view, so all its members must have promised it. Otherwise it
// was never in force.
TEST(RecoveryTest, AFirstViewIsCompletedWhenAllItsMembersTellOfIt) {
  wire::View first = JobView(1, 2, 1);
  Recovery recovery(7, {}, kCoordinatorRules);
  EXPECT_FALSE(recovery.HasQuorum({}));
  recovery.OnReport(ReportOf(1, 7, {}, 3, first));
  recovery.OnReport(ReportOf(101, 7, {}, 3, first));
  EXPECT_FALSE(recovery.HasQuorum({}));
  EXPECT_EQ(recovery.Missing(), "worker 1 (process 2)");
  recovery.OnReport(ReportOf(2, 7, {}));
  ASSERT_TRUE(recovery.HasQuorum({})) << "whether it has promised or not";
  EXPECT_EQ(recovery.Promised(), first);
}

TEST(RecoveryTest, APromiseBeyondTheNextViewOrBeforeItIsNone) {
  wire::View present = JobView(5, 1, 0);
  Recovery recovery(9, {}, kCoordinatorRules);
  recovery.OnReport(ReportOf(1, 9, present, 3, JobView(5, 2, 0)));
  ASSERT_TRUE(recovery.HasQuorum({}));
  EXPECT_FALSE(recovery.Promised().has_value()) << "it is in force";
  Recovery other(9, {}, kCoordinatorRules);
  other.OnReport(ReportOf(1, 9, present, 3, JobView(7, 2, 0)));
  EXPECT_FALSE(other.Promised().has_value());
}

// The completed view may stand before another promise, which can be seen only then.
TEST(RecoveryTest, AfterItHasCompletedAViewItReadsAgain) {
  wire::View first = JobView(1, 2, 0);
  wire::View second = JobView(2, 3, 0);
  for (bool wrong : {false, true}) {
    const CoordinatorRules& rules =
        wrong ? RulesWith(CoordinatorMistake::kReadOnce) : kCoordinatorRules;
    Recovery recovery(9, first, rules);
    for (uint64_t who : {1, 2}) recovery.OnReport(ReportOf(who, 9, first, 3, second));
    recovery.OnCommitted(second);
    EXPECT_EQ(recovery.HasQuorum({}), true) << "two of three have reported";
    recovery.OnReport(ReportOf(3, 9, JobView(3, 3, 0)));
    EXPECT_EQ(recovery.latest().epoch, wrong ? 2u : 3u);
  }
}

TEST(RecoveryTest, TheLatestReportOfAMemberCounts) {
  wire::View first = JobView(1, 1, 1);
  Recovery recovery(9, first, kCoordinatorRules);
  recovery.OnReport(ReportOf(1, 9, first, 3, JobView(2, 1, 0)));
  recovery.OnReport(ReportOf(1, 9, first));
  EXPECT_TRUE(recovery.HasReport(1));
  EXPECT_EQ(recovery.reports().size(), 1u);
  EXPECT_FALSE(recovery.Promised().has_value());
  EXPECT_EQ(recovery.Missing(), "server 0 (process 101)");
}

}  // namespace
}  // namespace byteps::protocol
