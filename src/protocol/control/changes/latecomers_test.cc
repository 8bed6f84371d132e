#include "src/protocol/control/changes/latecomers.h"

#include <gtest/gtest.h>

#include "src/protocol/control/parts_for_test.h"

namespace byteps::protocol {
namespace {

class LatecomersTest : public PartsTest {
 protected:
  LatecomersTest() {
    options.min_workers = 1;
    BringIntoForce(JobView(1, 2, 1));
  }
  Member& Come(uint64_t who, uint32_t size) {
    Member& member = Add(roster, Role::kWorker, who, Presence::kWaiting);
    member.join.contributor = member.join.node = "node";
    member.join.contributor_size = size;
    return member;
  }
  // Returns the texts that came over this connection since the last call.
  std::vector<std::string> Heard(ConnectionId id) {
    std::vector<std::string> texts;
    for (const wire::Waiting& waiting : To<wire::Waiting>(id)) texts.push_back(waiting.text);
    std::erase_if(driver.sent, [&](const auto& one) { return one.first == id; });
    return texts;
  }
  const std::string lacks =
      "the job runs without this worker: node lacks 1 of its 2 processes; when all are here, it is "
      "let in when all others call shutdown and init, or suspend and resume";
  const std::string waits =
      "the job runs without this worker; it is let in when all others call shutdown and init, or "
      "suspend and resume";
};

TEST_F(LatecomersTest, EachIsToldOnceAndAgainWhenItWaitsForSomethingElse) {
  Come(8, 2);
  latecomers.Tell();
  EXPECT_EQ(Heard(8), std::vector<std::string>{lacks});
  latecomers.Tell();
  EXPECT_TRUE(Heard(8).empty());
  Come(9, 2);
  latecomers.Tell();
  for (ConnectionId id : {8, 9}) EXPECT_EQ(Heard(id), std::vector<std::string>{waits});
  roster.Remove(9);
  latecomers.Tell();
  EXPECT_EQ(Heard(8), std::vector<std::string>{lacks}) << "the other one has gone away";
}

TEST_F(LatecomersTest, OverANewConnectionItIsToldAgain) {
  Come(8, 1);
  latecomers.Tell();
  roster.Remove(8);
  roster.Add(50, JoinOf(Role::kWorker, 8));
  latecomers.Tell();
  EXPECT_EQ(Heard(50), std::vector<std::string>{waits});
}

TEST_F(LatecomersTest, MembersAreToldNothing) {
  latecomers.Tell();
  EXPECT_TRUE(driver.sent.empty());
}

TEST_F(LatecomersTest, WhoIsAboutToBeLetInIsToldNothing) {
  Come(9, 1);
  wire::View next = JobView(2, 2, 1);
  next.workers.push_back({2, 2, 9, "h", 9, 0, 1});
  views.Propose(next);
  latecomers.Tell();
  EXPECT_TRUE(To<wire::Waiting>(9).empty());
  views.DropProposal(views.term());
  latecomers.Tell();
  EXPECT_EQ(Heard(9), std::vector<std::string>{waits});
}

// Gathering tells the workers then, or nobody knows which workers wait.
TEST_F(LatecomersTest, WhileItGathersOrAsksWhatWasDecidedNobodyIsTold) {
  Come(9, 1);
  gathering.BeginAgain();
  latecomers.Tell();
  EXPECT_TRUE(To<wire::Waiting>(9).empty());
  gathering.Stop();
  latecomers.Tell();
  EXPECT_EQ(Heard(9), std::vector<std::string>{waits}) << "the job has begun without it";
  views.Recover(views.term());
  driver.sent.clear();
  Come(8, 2);
  latecomers.Tell();
  EXPECT_TRUE(To<wire::Waiting>(8).empty());
}

}  // namespace
}  // namespace byteps::protocol
