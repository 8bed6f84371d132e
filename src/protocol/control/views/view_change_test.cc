#include "src/protocol/control/views/view_change.h"

#include <gtest/gtest.h>

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

TEST(ViewChangeTest, NewMembersMustPromiseUnlessTheyAreGone) {
  wire::View next = JobView(2, 2, 2);
  next.servers[1].incarnation = 200;
  wire::View present = JobView(1, 2, 1);
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
  ViewChange change(1, {}, JobView(1, 2, 1), false);
  EXPECT_TRUE(change.StartsFromNothing({}));
  change.OnPromise(1, {1, 1});
  change.OnPromise(2, {1, 1});
  EXPECT_FALSE(change.MayCommit({}));
  EXPECT_EQ(change.Missing({}), "server 0 (process 101)");
  change.OnPromise(101, {1, 1});
  EXPECT_TRUE(change.MayCommit({}));
}

TEST(ViewChangeTest, WhoIsProvenDeadIsNeitherCountedNorNamed) {
  ViewChange change(1, JobView(1, 2, 1), JobView(2, 1, 1), false);
  EXPECT_EQ(change.Missing({}),
            "worker 0 (process 1), worker 1 (process 2), server 0 (process 101)");
  EXPECT_EQ(change.Missing({1, 2}), "server 0 (process 101)");
  change.OnPromise(101, {1, 2});
  EXPECT_FALSE(change.MayCommit({}));
  EXPECT_TRUE(change.MayCommit({1, 2}));
}

// Nobody of the present view can be asked, so all members of the next one must agree.
TEST(ViewChangeTest, WhenAllOfThePresentViewAreDeadItIsAsIfThereWereNone) {
  wire::View next = JobView(2, 2, 0);
  next.workers[0].incarnation = 8;
  next.workers[1].incarnation = 9;
  ViewChange change(1, JobView(1, 1, 1), next, false);
  EXPECT_FALSE(change.StartsFromNothing({1}));
  ASSERT_TRUE(change.StartsFromNothing({1, 101}));
  change.OnPromise(8, {1, 2});
  change.Waive(9);
  EXPECT_FALSE(change.MayCommit({1, 101})) << "there is nobody to waive it";
  change.OnPromise(9, {1, 2});
  EXPECT_TRUE(change.MayCommit({1, 101}));
}

TEST(ViewChangeTest, AProcessThatIsLetInMustPromiseAlsoBesideItsCarrier) {
  wire::View next = JobView(2, 3, 1);
  next.workers[2].slot = next.workers[1].slot;
  next.workers[1].incarnation = 8;
  next.workers[2].incarnation = 9;
  ViewChange change(1, JobView(1, 1, 1), next, false);
  for (uint64_t who : {1, 8, 101}) change.OnPromise(who, {1, 2});
  EXPECT_FALSE(change.MayCommit({})) << "it has no vote, but it must know";
  change.OnPromise(9, {1, 2});
  EXPECT_TRUE(change.MayCommit({}));
}

}  // namespace
}  // namespace byteps::protocol
