#include "src/protocol/control/view_change.h"

#include <gtest/gtest.h>

#include "src/protocol/control/recovery.h"

namespace byteps::protocol {
namespace {

// Workers 1..n, servers 101..100+k, by incarnation.
wire::View ViewOf(uint64_t epoch, uint32_t workers, uint32_t servers) {
  wire::View view;
  view.epoch = epoch;
  view.generation = 1;
  for (uint32_t i = 0; i < workers; ++i) {
    view.workers.push_back({i, i, i + 1, "h", i, 0, 1});
  }
  for (uint32_t i = 0; i < servers; ++i) {
    wire::ServerInfo server;
    server.index = i;
    server.incarnation = 101 + i;
    server.shard_weights = {1};
    view.servers.push_back(server);
  }
  return view;
}

TEST(QuorumTest, VotersAreWorkersThatHaveNotLeftAndThenLivingServers) {
  wire::View view = ViewOf(1, 3, 2);
  std::swap(view.workers[0], view.workers[2]);
  view.workers[1].left = true;
  view.servers[0].alive = false;
  std::vector<Voter> voters = VotersOf(view);
  ASSERT_EQ(voters.size(), 3u);
  EXPECT_EQ(voters[0].incarnation, 1u);
  EXPECT_EQ(voters[1].incarnation, 3u);
  EXPECT_EQ(voters[2].incarnation, 102u);
}

TEST(QuorumTest, HalfIsEnoughForTheSideOfTheLowestVoterOnly) {
  wire::View view = ViewOf(1, 2, 2);
  EXPECT_TRUE(IsWriteQuorum(view, {1, 101}, {}));
  EXPECT_FALSE(IsWriteQuorum(view, {2, 102}, {}));
  EXPECT_TRUE(IsWriteQuorum(view, {2, 101, 102}, {}));
  EXPECT_FALSE(IsWriteQuorum(view, {1, 7, 8, 9}, {})) << "strangers do not count";
}

TEST(QuorumTest, WhoIsProvenDeadIsNotCountedInWriting) {
  wire::View view = ViewOf(1, 2, 2);
  EXPECT_TRUE(IsWriteQuorum(view, {2, 102}, {1}));
  EXPECT_TRUE(IsWriteQuorum(view, {2}, {1, 101})) << "half of two, and the lowest of them";
  EXPECT_FALSE(IsWriteQuorum(view, {102}, {1, 101}));
  EXPECT_FALSE(IsWriteQuorum(view, {}, {1, 2, 101, 102})) << "nobody is left to ask";
}

TEST(QuorumTest, ReadingCountsEverybody) {
  wire::View view = ViewOf(1, 2, 2);
  EXPECT_TRUE(IsReadQuorum(view, {1, 101}));
  EXPECT_FALSE(IsReadQuorum(view, {2, 102}));
  EXPECT_TRUE(IsReadQuorum(view, {2, 101, 102}));
}

TEST(ViewChangeTest, NewMembersMustPromiseUnlessTheyAreGone) {
  wire::View next = ViewOf(2, 2, 2);
  next.servers[1].incarnation = 200;
  wire::View present = ViewOf(1, 2, 1);
  ViewChange change(5, present, next, false);
  for (uint64_t from : {1, 2, 101}) change.OnPromise(from, {5, 2});
  EXPECT_FALSE(change.MayCommit({}));
  ViewChange without = change;
  without.Waive(200);
  EXPECT_TRUE(without.MayCommit({}));
  change.OnPromise(200, {4, 2});
  change.OnPromise(200, {5, 3});
  EXPECT_FALSE(change.MayCommit({})) << "of another term, of another view";
  change.OnPromise(200, {5, 2});
  EXPECT_TRUE(change.MayCommit({}));
  ViewChange completes(5, present, next, true);
  completes.OnPromise(1, {5, 2});
  completes.OnPromise(2, {5, 2});
  EXPECT_TRUE(completes.MayCommit({}));
}

TEST(ViewChangeTest, WithoutAPresentViewEverybodyMustPromise) {
  ViewChange change(1, {}, ViewOf(1, 2, 1), false);
  EXPECT_TRUE(change.StartsFromNothing({}));
  change.OnPromise(1, {1, 1});
  change.OnPromise(2, {1, 1});
  EXPECT_FALSE(change.MayCommit({}));
  EXPECT_EQ(change.Missing({}), "server 0 (process 0)");
  change.OnPromise(101, {1, 1});
  EXPECT_TRUE(change.MayCommit({}));
}

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
  wire::View first = ViewOf(1, 2, 1);
  wire::View second = ViewOf(2, 2, 1);
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

TEST(RecoveryTest, ThePromiseOfTheHighestTermIsCompleted) {
  wire::View first = ViewOf(1, 3, 0);
  wire::View one = ViewOf(2, 2, 0);
  wire::View other = ViewOf(2, 1, 0);
  Recovery recovery(9, {}, kCoordinatorRules);
  recovery.OnReport(ReportOf(1, 9, first, 3, one));
  recovery.OnReport(ReportOf(2, 9, first, 4, other));
  ASSERT_TRUE(recovery.HasQuorum({}));
  EXPECT_EQ(recovery.Promised(), other);
  recovery.OnCommitted(other);
  EXPECT_EQ(recovery.latest(), other);
  EXPECT_FALSE(recovery.Promised().has_value());
}

}  // namespace
}  // namespace byteps::protocol
