#include "src/protocol/control/changes/comeback.h"

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

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
  Member& left = Add(roster, Role::kWorker, 1, Presence::kLeft);
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
  Add(roster, Role::kWorker, 9, Presence::kWaiting, 0);
  ends.Add({"h", 1, 0});
  comeback.EndIfAllEnded();
  EXPECT_TRUE(driver.finished.empty());
  ends.Add({"h", 2, 1});
  comeback.EndIfAllEnded();
  EXPECT_EQ(driver.finished.size(), 1u) << "who waits has nobody to train with";
}

TEST_F(ComebackTest, AfterARestartServersThatAreNotBackHaveSomeTimeToBeTold) {
  roster.Remove(101);
  comeback.Wait(2);
  comeback.EndIfNobodyComesBack();
  EXPECT_TRUE(driver.finished.empty());
  Add(roster, Role::kServer, 101, Presence::kIn);
  comeback.EndIfNobodyComesBack();
  EXPECT_TRUE(driver.finished.empty()) << "one worker had left, and may be alive";
}

TEST_F(ComebackTest, WhileItGathersForTheFirstTimeNobodyHasLeft) {
  CoordinatorOptions fresh_options;
  const Surroundings fresh_around{fresh_options, driver, clock};
  Views fresh{fresh_around, members};
  Gathering first{fresh_around, members, job_end, fresh.in_force()};
  Comeback none{fresh_around, members, job_end, fresh, first};
  none.EndIfNobodyComesBack();
  EXPECT_TRUE(driver.finished.empty());
  ends.Add({"h", 7, 0});
  none.EndIfAllEnded();
  ASSERT_EQ(driver.finished.size(), 1u) << "but nobody is left who would join";
  EXPECT_TRUE(driver.finished[0].ok());
}

TEST_F(ComebackTest, AWorkerThatIsThereMayStillTrainAlthoughTheOthersEnded) {
  wire::View one_stays = JobView(2, 2, 1);
  one_stays.workers[0].left = true;
  views.Propose(one_stays);
  for (uint64_t who : {2, 101}) views.OnPromise(who, {views.term(), 2});
  ASSERT_TRUE(views.Advance().has_value());
  for (uint32_t rank : {0u, 1u}) ends.Add({"h", rank + 1, rank});
  comeback.EndIfAllEnded();
  EXPECT_TRUE(driver.finished.empty()) << "worker 1 has not left";
}

}  // namespace
}  // namespace byteps::protocol
