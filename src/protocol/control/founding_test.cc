// A coordinator finds out whether its job runs already, and no second job begins.
#include <gtest/gtest.h>

#include "src/protocol/control/failure_for_test.h"

namespace byteps::protocol {
namespace {

class FoundingTest : public FailureTest {};

TEST_F(FoundingTest, TheFirstMemberOfAJobThatRunsEndsTheGathering) {
  StartJob();
  wire::View view = ViewOf(10);
  Restart();
  for (ConnectionId id : {30, 31}) Say(id, Join(Role::kServer, static_cast<int32_t>(id - 30)));
  for (ConnectionId id : {40, 41}) Say(id, Join(Role::kWorker, static_cast<int32_t>(id - 40)));
  EXPECT_FALSE(coordinator().recovering()) << "they wait for the last worker";
  Reconnect(12, 112);
  EXPECT_TRUE(coordinator().recovering());
  Say(42, Join(Role::kWorker, 2));
  EXPECT_EQ(coordinator().epoch(), 0u) << "all places are taken, and a job runs";
  ReconnectAll({10, 20});
  EXPECT_EQ(coordinator().view(), view);
  EXPECT_EQ(To<wire::Refused>(30).size(), 1u) << "its place is taken";
}

// The job of the members that come back had lost its quorum. The new job has the same address and
// secret.
TEST_F(FoundingTest, WhoSleptThroughTheEndOfItsJobIsSentAwayByTheNextOne) {
  options.nonce = 1;
  StartJob();
  Suspect(10, Role::kServer, 1, wire::Suspicion::kNonsense);
  ASSERT_EQ(ViewOf(12).epoch, 2u);
  for (int i = 0; i < 2; ++i) {
    Restart();
    ReconnectAll({10, 11, 12, 20});
    for (ConnectionId id : {10, 11, 12, 20}) Reconnect(id + 100, id);
  }
  Membership asleep = members.at(12);
  Membership its_server = members.at(20);
  members.clear();
  options.nonce = 2;
  Restart();
  StartJob();
  wire::View view = ViewOf(10);
  ASSERT_EQ(view.epoch, 1u);
  members.emplace(112, asleep);
  Say(112, members.at(112).Greeting());
  EXPECT_TRUE(members.at(112).IsEvicted());
  EXPECT_EQ(driver.disconnected.back(), 112u);
  EXPECT_FALSE(coordinator().recovering());
  // The same holds when the coordinator has to find out which job is in force.
  Restart();
  members.emplace(120, its_server);
  Say(120, members.at(120).Greeting());
  EXPECT_TRUE(coordinator().recovering());
  for (ConnectionId id : {10, 11, 20}) Reconnect(id, id + 200);
  EXPECT_EQ(coordinator().view(), view);
  EXPECT_EQ(ViewOf(210), view);
  EXPECT_TRUE(members.at(120).IsEvicted());
}

TEST_F(FoundingTest, AFirstViewIsOfTheCoordinatorThatMadeIt) {
  options.nonce = 7;
  StartJob();
  EXPECT_EQ(ViewOf(10).founder, 7u);
  options.nonce = 8;
  Restart();
  ReconnectAll({10, 11, 12, 20});
  Suspect(110, Role::kServer, 1, Suspicion::kNonsense);
  EXPECT_EQ(ViewOf(110).epoch, 2u);
  EXPECT_EQ(ViewOf(110).founder, 7u);
}

TEST_F(FoundingTest, AFirstViewThatWasPromisedIsCompleted) {
  drops = [](ConnectionId, const wire::Message& message) { return Is<wire::Commit>(message); };
  StartJob();
  drops = nullptr;
  Restart();
  ReconnectAll({10, 11, 12, 20});
  EXPECT_EQ(coordinator().epoch(), 0u) << "all of them had to promise it";
  ReconnectAll({21});
  EXPECT_EQ(ViewOf(110).epoch, 1u);
  EXPECT_EQ(ViewOf(121), ViewOf(110));
}

// Tests of declarations after a restart.

}  // namespace
}  // namespace byteps::protocol
