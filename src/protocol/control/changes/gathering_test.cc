#include "src/protocol/control/changes/gathering.h"

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

class GatheringTest : public PartsTest {
 protected:
  void Come(Role role, uint64_t incarnation, int32_t rank) {
    wire::Join join = JoinOf(role, incarnation, rank);
    if (role == Role::kWorker) gathering.OnWorker(join);
    roster.Add(incarnation, join);
  }
};

TEST_F(GatheringTest, ItBeginsWhenAllAreHere) {
  Come(Role::kWorker, 1, 0);
  Come(Role::kServer, 101, 0);
  EXPECT_FALSE(gathering.NextGeneration().has_value());
  Come(Role::kWorker, 2, -1);
  std::optional<wire::View> first = gathering.NextGeneration();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->workers.size(), 2u);
  EXPECT_EQ(roster.Find(2)->index, 1u) << "the lowest free rank";
}

TEST_F(GatheringTest, ItSaysWhoIsMissingAndEndsLate) {
  Come(Role::kWorker, 2, 1);
  gathering.NoteRefusal({"worker 0 (process 4 on n)", "worker 0 on n", "it runs version 0", true});
  Pass(options.report_every);
  gathering.DoWhatIsDue();
  ASSERT_EQ(To<wire::Waiting>(2).size(), 1u);
  for (const char* part : {"1/2 workers", "missing worker 0", "missing 1 server", "version 0"}) {
    EXPECT_NE(To<wire::Waiting>(2)[0].text.find(part), std::string::npos) << part;
  }
  Pass(options.start_timeout);
  gathering.DoWhatIsDue();
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_EQ(driver.finished[0].code(), StatusCode::kDeadlineExceeded);
}

// The first worker of a machine may be the one that is missing.
TEST_F(GatheringTest, OneWorkerOfEachMachineThatIsHereHearsIt) {
  for (uint32_t i : {3, 1, 2}) {
    wire::Join join = JoinOf(Role::kWorker, i, static_cast<int32_t>(i));
    join.worker_count = 6;
    join.local_rank = i;
    join.host = i == 3 ? "other" : "h";
    gathering.OnWorker(join);
    roster.Add(i, join);
  }
  Come(Role::kServer, 101, 0);
  Pass(options.report_every);
  gathering.DoWhatIsDue();
  EXPECT_EQ(To<wire::Waiting>(1).size(), 1u);
  EXPECT_EQ(To<wire::Waiting>(2).size(), 0u);
  EXPECT_EQ(To<wire::Waiting>(3).size(), 1u);
  EXPECT_EQ(To<wire::Waiting>(101).size(), 1u) << "it says where it is";
}

TEST_F(GatheringTest, ItSaysSoMoreAndMoreSeldom) {
  Come(Role::kWorker, 1, 0);
  std::vector<Duration> pauses;
  for (int i = 0; i < 4; ++i) {
    Duration pause = gathering.NextDue() - clock.now();
    pauses.push_back(pause);
    Pass(pause);
    gathering.DoWhatIsDue();
  }
  EXPECT_EQ(pauses, (std::vector<Duration>{seconds(5), seconds(10), seconds(20), seconds(40)}));
}

// All programs that load a framework come after five seconds or more.
TEST_F(GatheringTest, WhileNoWorkerIsHereItSaysSoLater) {
  Come(Role::kServer, 101, 0);
  EXPECT_EQ(gathering.NextDue() - clock.now(), seconds(15));
  Pass(seconds(8));
  Come(Role::kWorker, 1, 0);
  EXPECT_EQ(gathering.NextDue() - clock.now(), seconds(5));
  Pass(seconds(2));
  Come(Role::kWorker, 2, 1);
  EXPECT_EQ(gathering.NextDue() - clock.now(), seconds(3)) << "the first one counts";
  Pass(seconds(3));
  gathering.DoWhatIsDue();
  ASSERT_EQ(driver.reports.size(), 1u);
  EXPECT_NE(driver.reports[0].find("waited 13 s"), std::string::npos);
}

// The members hear it as seldom as before.
TEST_F(GatheringTest, ItsOwnDriverHearsItEachSecondIfItRewritesTheLine) {
  options.show_every = seconds(1);
  gathering.BeginAgain();
  Come(Role::kWorker, 1, 0);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(gathering.NextDue() - clock.now(), seconds(1));
    Pass(seconds(1));
    gathering.DoWhatIsDue();
  }
  ASSERT_EQ(driver.reports.size(), 6u);
  EXPECT_NE(driver.reports[2].find("missing worker 1"), std::string::npos);
  EXPECT_NE(driver.reports[2].find("waited 3 s"), std::string::npos);
  EXPECT_EQ(To<wire::Waiting>(1).size(), 1u);
}

TEST_F(GatheringTest, AnElasticJobBeginsWithThoseWhoAreHereWhenNobodyElseComes) {
  options.min_workers = 1;
  Come(Role::kWorker, 1, 0);
  Come(Role::kServer, 101, 0);
  EXPECT_FALSE(gathering.NextGeneration().has_value()) << "worker 1 may come";
  ends.Add({"h", 7, 1});
  EXPECT_TRUE(gathering.NextGeneration().has_value());
}

TEST_F(GatheringTest, TooFewCanComeAndItSaysSoAtOnce) {
  Come(Role::kWorker, 1, 0);
  ends.Add({"h", 7, 1});
  EXPECT_FALSE(gathering.NextGeneration().has_value());
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_NE(driver.finished[0].message().find("worker 1 ended before joining"), std::string::npos);
}

TEST_F(GatheringTest, TheNextGenerationWaitsFromItsFirstWorkerOn) {
  BringIntoForce(JobView(1, 2, 1));
  Pass(seconds(500));
  gathering.BeginAgain();
  roster.Remove(1);
  roster.Remove(2);
  EXPECT_FALSE(gathering.SomebodyWaits());
  Pass(seconds(500));
  Come(Role::kWorker, 3, 0);
  EXPECT_TRUE(gathering.SomebodyWaits());
  EXPECT_GT(gathering.NextDue(), now);
  gathering.OnWithdrawn();
  EXPECT_EQ(gathering.worker_count(), 2u) << "one still waits";
  roster.Remove(3);
  gathering.OnWithdrawn();
  EXPECT_FALSE(gathering.worker_count().has_value());
}

TEST_F(GatheringTest, WhatTheLayoutCannotGiveIsRefusedBeforeTheJobBegins) {
  for (uint32_t i : {0, 1, 2}) {
    wire::Join join = JoinOf(Role::kWorker, 1 + i, static_cast<int32_t>(i));
    join.worker_count = 3;
    join.contributor = i == 0 ? "" : "m";
    join.contributor_size = i == 0 ? 1 : 2;
    join.same_bits = true;
    gathering.OnWorker(join);
    roster.Add(1 + i, join);
  }
  Come(Role::kServer, 101, 0);
  EXPECT_FALSE(gathering.NextGeneration().has_value());
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_EQ(driver.finished[0].code(), StatusCode::kRefused);
  EXPECT_NE(driver.finished[0].message().find("put larger machines first"), std::string::npos);
}

}  // namespace
}  // namespace byteps::protocol
