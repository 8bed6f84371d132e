#include "src/protocol/control/changes/succession.h"

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

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
};

TEST_F(SuccessionTest, ALossMakesAViewWithoutIt) {
  EXPECT_EQ(AdvanceViews(state), ViewStep::kNone);
  losses.Lose(2, "it is gone", false);
  EXPECT_EQ(AdvanceViews(state), ViewStep::kDone);
  EXPECT_EQ(AdvanceViews(state), ViewStep::kNone) << "nobody has promised";
  Promise();
  EXPECT_EQ(AdvanceViews(state), ViewStep::kDone);
  EXPECT_EQ(views.in_force().epoch, 2u);
  EXPECT_EQ(views.in_force().workers.size(), 1u);
  EXPECT_TRUE(departures.NobodyGoes());
}

TEST_F(SuccessionTest, AllAtASyncPointGoOnWhenNobodyWaitsAndLetInWhoDoes) {
  for (uint64_t who : {1, 2}) syncs.Reach(who, {1, 1});
  EXPECT_EQ(AdvanceViews(state), ViewStep::kNone);
  EXPECT_EQ(To<wire::GoOn>(1).size(), 1u);
  Add(roster, Role::kWorker, 9, Presence::kWaiting);
  syncs.Reach(1, {1, 2});
  EXPECT_EQ(AdvanceViews(state), ViewStep::kNone) << "worker 2 has operations open";
  syncs.Reach(2, {1, 2});
  EXPECT_EQ(AdvanceViews(state), ViewStep::kDone);
  Promise();
  views.OnPromise(9, {views.term(), 2});
  EXPECT_EQ(AdvanceViews(state), ViewStep::kDone);
  EXPECT_EQ(views.in_force().generation, 2u);
  EXPECT_EQ(views.in_force().workers.back().slot, 2u);
}

TEST_F(SuccessionTest, WhenAllHaveLeftItGathersAgain) {
  for (uint64_t who : {1, 2}) departures.Leave(who);
  EXPECT_EQ(AdvanceViews(state), ViewStep::kDone);
  Promise();
  EXPECT_EQ(AdvanceViews(state), ViewStep::kDone);
  EXPECT_TRUE(gathering.IsOn());
  EXPECT_EQ(roster.Find(1)->presence, Presence::kLeft);
}

TEST_F(SuccessionTest, AnInheritedViewIsRenewedBeforeAnybodyGoesOn) {
  views.Recover(views.term());
  wire::Report report;
  report.term = views.term();
  report.committed = JobView(3, 2, 1);
  for (uint64_t who : {1, 2}) {
    report.self = JoinOf(Role::kWorker, who);
    views.OnReport(*roster.Find(who), report);
  }
  roster.Find(101)->join.worker_count = 7;
  EXPECT_EQ(AdvanceViews(state), ViewStep::kFound);
  EXPECT_EQ(gathering.worker_count(), 2u) << "only the word of workers counts";
  ASSERT_TRUE(views.IsInherited());
  EXPECT_EQ(AdvanceViews(state), ViewStep::kNone);
  for (uint64_t who : {1, 2}) syncs.Reach(who, {1, 1});
  EXPECT_EQ(AdvanceViews(state), ViewStep::kDone) << "a promise not heard of may let workers in";
  EXPECT_TRUE(To<wire::GoOn>(1).empty());
  Promise();
  EXPECT_EQ(AdvanceViews(state), ViewStep::kDone);
  EXPECT_EQ(views.in_force().epoch, 4u);
  EXPECT_EQ(AdvanceViews(state), ViewStep::kNone);
  EXPECT_EQ(To<wire::GoOn>(1).size(), 1u);
}

TEST_F(SuccessionTest, AContributorThatLacksAProcessIsNotLetIn) {
  Member& one = Add(roster, Role::kWorker, 9, Presence::kWaiting);
  one.join.contributor = "node";
  one.join.contributor_size = 2;
  for (uint64_t who : {1, 2}) syncs.Reach(who, {1, 1});
  EXPECT_EQ(AdvanceViews(state), ViewStep::kNone);
  EXPECT_EQ(To<wire::GoOn>(1).size(), 1u) << "nobody waits for who cannot be let in";
  EXPECT_FALSE(views.IsChanging());
}

TEST_F(SuccessionTest, AServerThatWaitsTakesItsPlaceAndLearnsWhatHasFailed) {
  losses.Lose(101, "it is gone", true);
  Member& fresh = Add(roster, Role::kServer, 201, Presence::kWaiting);
  fresh.index = 0;
  EXPECT_EQ(AdvanceViews(state), ViewStep::kDone);
  Promise();
  views.OnPromise(201, {views.term(), 2});
  EXPECT_EQ(AdvanceViews(state), ViewStep::kDone);
  EXPECT_EQ(views.in_force().servers[0].incarnation, 201u);
  EXPECT_EQ(fresh.presence, Presence::kIn);
  EXPECT_EQ(To<wire::Commit>(201).size(), 1u);
}

// The worker was let in by a view that it never promised, because it was away.
TEST_F(SuccessionTest, WhoWentAwayWhileItWasLetInIsWatched) {
  for (uint64_t who : {1, 2}) syncs.Reach(who, {1, 1});
  Add(roster, Role::kWorker, 9, Presence::kWaiting);
  EXPECT_EQ(AdvanceViews(state), ViewStep::kDone);
  roster.Remove(9);
  views.Withdraw(9);
  Promise();
  EXPECT_EQ(AdvanceViews(state), ViewStep::kDone);
  EXPECT_TRUE(IsIn(views.in_force(), 9));
  EXPECT_TRUE(suspicions.IsAway(9));
}

TEST_F(SuccessionTest, EachGenerationSaysOnceWhatBitsOfSumsDependOn) {
  wire::View next = views.in_force();
  const auto enforce = [&](uint32_t generation) {
    ++next.epoch;
    next.generation = generation;
    next.began = next.epoch;
    views.Propose(next);
    Promise();
    EXPECT_EQ(AdvanceViews(state), ViewStep::kDone);
  };
  next.workers[1].slot = next.workers[0].slot;
  enforce(2);
  ASSERT_EQ(driver.informed.size(), 1u);
  EXPECT_NE(driver.informed[0].find("share a machine"), std::string::npos);
  enforce(2);
  EXPECT_EQ(driver.informed.size(), 1u) << "the generation goes on";
  EXPECT_EQ(driver.reports, std::vector<std::string>());
  next.sum_group = 1;
  next.workers[1].rank = 2;
  next.gone.push_back({1, 1, 0, "h", 0, 0, 1});
  enforce(3);
  ASSERT_EQ(driver.reports.size(), 1u) << "news, because few expect it";
  EXPECT_NE(driver.reports[0].find("ranks 0, 2 are no blocks"), std::string::npos);
}

}  // namespace
}  // namespace byteps::protocol
