// The coordinator is restarted, at each step of a change, or stands beside another one.
#include <gtest/gtest.h>

#include <string>

#include "src/protocol/control/failure_for_test.h"
#include "src/protocol/control/views/coordinator_mistakes_for_test.h"
#include "src/protocol/control/views/sum_order.h"

namespace byteps::protocol {
namespace {

using wire::Suspicion;

class RestartTest : public FailureTest {};

TEST_F(RestartTest, ARestartFindsTheSameViewUnderAHigherTerm) {
  EXPECT_EQ(coordinator().Describe(now).sums, "") << "nobody sums yet";
  StartJob();
  wire::View view = ViewOf(10);
  uint64_t term = coordinator().term();
  std::string sums = coordinator().Describe(now).sums;
  EXPECT_EQ(sums, DescribeSums(view).text);
  Restart();
  ReconnectAll({10, 11});
  EXPECT_EQ(coordinator().epoch(), 0u) << "two of five are no quorum";
  ReconnectAll({12});
  EXPECT_EQ(coordinator().view(), view);
  EXPECT_EQ(coordinator().Describe(now).sums, sums);
  EXPECT_GT(coordinator().term(), term);
  ReconnectAll({20, 21});
  Wait(seconds(2), {110, 111, 112, 120, 121});
  EXPECT_EQ(ViewOf(121), view);
  EXPECT_TRUE(driver.finished.empty());
}

TEST_F(RestartTest, WhoDoesNotComeBackAfterARestartIsLost) {
  StartJob();
  Restart();
  ReconnectAll({10, 11, 12, 20});
  Wait(seconds(1), {110, 111, 112, 120});
  EXPECT_FALSE(ViewOf(110).servers[1].alive);
}

// No worker has left before, so nobody else can come back: the job ends with its workers.
TEST_F(RestartTest, AWholeJobThatFinishesRightAfterARestartEndsAtOnce) {
  StartJob();
  Restart();
  ReconnectAll({10, 11, 12, 20});
  for (ConnectionId worker : {110, 111, 112}) Say(worker, wire::Leave{});
  for (ConnectionId worker : {110, 111, 112}) Lose(worker);
  EXPECT_TRUE(driver.finished.empty()) << "a server would never hear of it";
  ReconnectAll({21});
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_FALSE(To<wire::JobOver>(121).empty());
  EXPECT_TRUE(driver.finished[0].ok()) << driver.finished[0].message();
}

TEST_F(RestartTest, ARestartThatHearsTooFewEnds) {
  StartJob();
  Restart();
  ReconnectAll({10, 11});
  Wait(seconds(11), {110, 111});
  EXPECT_NE(EndText().find("cannot see worker 2"), std::string::npos) << EndText();
}

TEST_F(RestartTest, AProposalThatSomebodyPromisedIsCompleted) {
  StartJob();
  deaf = {10, 11, 12, 20};
  Suspect(10, Role::kServer, 1, Suspicion::kNonsense);
  deaf = {10, 11, 20};
  Say(12, members.at(12).Greeting());  // only worker 2 hears the proposal
  ASSERT_EQ(coordinator().epoch(), 1u);
  Restart();
  deaf.clear();
  ReconnectAll({10, 11, 12});
  EXPECT_EQ(ViewOf(110).epoch, 2u);
  EXPECT_FALSE(ViewOf(110).servers[1].alive);
}

TEST_F(RestartTest, AProposalThatNobodyHeardIsForgotten) {
  StartJob();
  deaf = {10, 11, 12, 20, 21};
  Suspect(10, Role::kServer, 1, Suspicion::kNonsense);
  Restart();
  deaf.clear();
  ReconnectAll({10, 11, 12, 20, 21});
  EXPECT_EQ(ViewOf(110).epoch, 1u);
  EXPECT_EQ(coordinator().epoch(), 1u);
}

TEST_F(RestartTest, AViewThatOneMemberHeardOfIsKept) {
  StartJob();
  drops = [](ConnectionId to, const wire::Message& message) {
    return to != 20 && Is<wire::Commit>(message);
  };
  Suspect(10, Role::kServer, 1, Suspicion::kNonsense);
  ASSERT_EQ(ViewOf(20).epoch, 2u);
  ASSERT_EQ(ViewOf(10).epoch, 1u);
  Restart();
  drops = nullptr;
  ReconnectAll({10, 11, 12});
  EXPECT_EQ(ViewOf(110), ViewOf(20));
}

// Another view had followed the one that is completed. The members that were asked first do not
// know of it.
class ReadAgainTest : public RestartTest {
 protected:
  // There are five voters. The first coordinator drops two of them, then a third.
  void Run() {
    options.worker_machines = 4;
    options.server_count = 1;
    StartJob();
    drops = [](ConnectionId to, const wire::Message& message) {
      return to == 20 && Is<wire::Commit>(message);
    };
    Lose(12);
    Lose(13);
    Wait(milliseconds(100), {10, 11, 20});
    ASSERT_EQ(ViewOf(10).epoch, 2u);
    ASSERT_EQ(ViewOf(20).epoch, 1u) << "has promised, and hears no more";
    drops = [](ConnectionId to, const wire::Message& message) {
      return to == 20 || (to == 11 && Is<wire::Commit>(message));
    };
    Lose(20);
    Wait(milliseconds(100), {10, 11});
    ASSERT_EQ(ViewOf(10).epoch, 3u);
    ASSERT_EQ(ViewOf(11).epoch, 2u);
    drops = nullptr;
    Restart();
    ReconnectAll({12, 13, 20});
    Reconnect(11, 111);
    Wait(seconds(7), {111, 112, 113, 120});
  }
};

TEST_F(ReadAgainTest, TheSecondReadingFindsIt) {
  Run();
  EXPECT_EQ(ViewOf(111).epoch, 3u);
  EXPECT_EQ(ViewOf(111), ViewOf(10));
}

TEST_F(ReadAgainTest, WithoutItTwoViewsCarryOneNumber) {
  options.rules = &RulesWith(CoordinatorMistake::kReadOnce);
  Run();
  EXPECT_EQ(ViewOf(111).epoch, 3u);
  EXPECT_NE(ViewOf(111), ViewOf(10));
}

TEST_F(RestartTest, ACoordinatorThatWasSupersededIsNotObeyed) {
  StartJob();
  std::unique_ptr<Coordinator> old = std::move(machine);
  Restart();
  ReconnectAll({10, 11, 12});
  size_t sent = driver.sent.size();
  old->OnMessage(20, wire::Suspect{Role::kServer, 1, 0, Suspicion::kNonsense, "x"}, now);
  bool proposed = false;
  for (size_t i = sent; i < driver.sent.size(); ++i) {
    auto [to, message] = driver.sent[i];
    if (to >= 20 || !Is<wire::Propose>(message)) continue;
    proposed = true;
    EXPECT_FALSE(members.at(to + 100).OnMessage(message).answer.has_value());
  }
  EXPECT_TRUE(proposed);
}

TEST_F(RestartTest, AProcessThatIsOutIsToldSo) {
  StartJob();
  deaf.insert(12);
  Suspect(10, Role::kWorker, 2, Suspicion::kNonsense);
  EXPECT_EQ(driver.disconnected.back(), 12u);
  deaf.clear();
  Reconnect(12, 112);
  EXPECT_TRUE(members.at(112).IsEvicted());
  EXPECT_EQ(driver.disconnected.back(), 112u);
}

// Tests in which nobody tells a coordinator that it takes the place of another one.

wire::Declare DeclareOf(const std::string& name, int64_t elements, uint32_t attempt = 0) {
  return {name, attempt, {wire::Op::kSum, DataType::kFloat32, 0, {elements}}, 1};
}

TEST_F(RestartTest, DeclarationsComeBackFromWorkers) {
  StartJob();
  for (ConnectionId id : {10, 11, 12}) Say(id, DeclareOf("a", 100000));
  Say(10, DeclareOf("b", 7));
  Say(10, DeclareOf("x", 3));
  Say(11, DeclareOf("x", 4));  // failed; worker 2 has not asked yet
  wire::Declared a = To<wire::Declared>(10)[0];
  wire::Declared b = To<wire::Declared>(10)[1];
  wire::Declared x = To<wire::Declared>(10)[2];
  wire::DeclareFailed failed = To<wire::DeclareFailed>(11)[0];
  Restart();
  wire::TensorSpec spec_a = DeclareOf("a", 100000).spec;
  // Worker 0 was told that "x" is declared, and not that it failed.
  Say(110,
      wire::Known{{{a, spec_a}, {b, DeclareOf("b", 7).spec}, {x, DeclareOf("x", 3).spec}}, {}});
  Reconnect(10, 110);
  Say(111, wire::Known{{{a, spec_a}}, {failed}});
  Reconnect(11, 111);
  Reconnect(20, 120);
  EXPECT_EQ(coordinator().epoch(), 1u);
  Say(111, DeclareOf("b", 7));
  EXPECT_TRUE(To<wire::Declared>(111).empty()) << "worker 2 may know better";
  EXPECT_TRUE(To<wire::StillKnown>(120).empty()) << "and know more tensors";
  Say(112, wire::Known{{{a, spec_a}}, {}});
  Reconnect(12, 112);
  ASSERT_EQ(To<wire::Declared>(111).size(), 1u);
  EXPECT_EQ(To<wire::Declared>(111)[0], b);
  Reconnect(21, 121);
  const std::vector<wire::StillKnown> still = {{0, (1 << 25) + 1, {a.tensor, b.tensor, x.tensor}}};
  EXPECT_EQ(To<wire::StillKnown>(120), still);
  EXPECT_EQ(To<wire::StillKnown>(121), still) << "it comes late";
  ASSERT_EQ(To<wire::DeclareFailed>(110).size(), 1u) << "failed beats declared";
  EXPECT_EQ(To<wire::DeclareFailed>(110)[0], failed);
  Say(112, DeclareOf("x", 3));
  EXPECT_EQ(To<wire::DeclareFailed>(112)[0], failed);
  Say(112, DeclareOf("new", 5));
  EXPECT_GE(To<wire::Declared>(112).back().tensor, 1u << 22) << "a range of its own";
  EXPECT_NE(To<wire::Declared>(112).back().placement, a.placement) << "dealing goes on";
}

// Simulated seed 201726. The first member that the third coordinator hears has not met the second
// one.
TEST_F(RestartTest, EveryCoordinatorNumbersTensorsOfItsOwn) {
  StartJob();
  Restart();
  ReconnectAll({10, 11, 12, 20});
  Say(110, DeclareOf("a", 3));
  options.nonce = 1;  // the higher of two terms with the same count
  Restart();
  Reconnect(21, 121);
  ReconnectAll({110, 111, 112});
  Say(210, DeclareOf("b", 3));
  ASSERT_FALSE(To<wire::Declared>(110).empty());
  ASSERT_FALSE(To<wire::Declared>(210).empty());
  EXPECT_NE(To<wire::Declared>(210).back().tensor, To<wire::Declared>(110).back().tensor);
}

TEST_F(RestartTest, ARepeatedDeclareIsAnsweredAgain) {
  StartJob();
  Say(10, DeclareOf("a", 3));
  Lose(10);
  Reconnect(10, 110);
  Say(110, DeclareOf("a", 3));
  EXPECT_EQ(To<wire::Declared>(110), To<wire::Declared>(10));
  Say(11, DeclareOf("a", 4));
  deaf.insert(110);
  Lose(110);
  deaf.clear();
  Reconnect(110, 210);
  EXPECT_EQ(To<wire::DeclareFailed>(210).size(), 1u) << "it may have missed it";
}

// Simulated seed 9893: a member that slept through the view that let it in joins again, and knows
// of no declarations. Nobody may wait for what it would tell.
TEST_F(RestartTest, AJoinerThatNeverHeardOfItsViewHoldsUpNoDeclarations) {
  StartJob();
  Suspect(10, Role::kWorker, 1, Suspicion::kNonsense);
  Say(13, Join(Role::kWorker, 1));
  deaf.insert(13);
  for (ConnectionId id : {10, 12}) Say(id, wire::Sync{1});
  Lose(13);  // nobody waits for its promise
  ASSERT_EQ(ViewOf(10).generation, 2u);
  ASSERT_EQ(ViewOf(13).epoch, 0u);
  Restart();
  deaf.clear();
  ReconnectAll({10, 12, 20, 21});
  ASSERT_EQ(coordinator().view(), ViewOf(110));
  Say(110, DeclareOf("a", 3));
  EXPECT_TRUE(To<wire::Declared>(110).empty()) << "the joiner may know better";
  Reconnect(13, 113);
  EXPECT_EQ(ViewOf(113), ViewOf(110));
  EXPECT_EQ(To<wire::Declared>(110).size(), 1u);
}

// A promise that the restarted coordinator did not hear of may let workers in, long after the
// others went on.
TEST_F(RestartTest, AfterARestartGoingOnMakesOldPromisesVoid) {
  StartJob();
  Restart();
  ReconnectAll({10, 11, 12, 20, 21});
  for (ConnectionId id : {110, 111, 112}) Say(id, wire::Sync{1});
  for (ConnectionId id : {110, 111, 112}) EXPECT_EQ(To<wire::GoOn>(id).size(), 1u);
  EXPECT_EQ(ViewOf(110).epoch, 2u);
  EXPECT_EQ(ViewOf(110).generation, 1u);
}

// Tests of sync points after a lost answer.

class LostGoOnTest : public RestartTest {
 protected:
  // All workers have reached the second sync point, and worker 2 did not hear that it may go on.
  void Run() {
    StartJob();
    for (int point = 1; point <= 2; ++point) {
      drops = [point](ConnectionId to, const wire::Message& message) {
        return point == 2 && to == 12 && Is<wire::GoOn>(message);
      };
      for (ConnectionId id : {10, 11, 12}) Say(id, members.at(id).NextSync());
    }
    drops = nullptr;
    ASSERT_EQ(members.at(10).NextSync().point, 3u);
    ASSERT_EQ(members.at(12).NextSync().point, 2u);
  }
};

TEST_F(LostGoOnTest, WhoAsksAgainIsAnswered) {
  Run();
  Lose(12);
  Reconnect(12, 112);
  Say(112, members.at(112).NextSync());
  EXPECT_EQ(To<wire::GoOn>(112), (std::vector<wire::GoOn>{{1, 2}}));
  Say(112, members.at(112).NextSync());
  EXPECT_EQ(To<wire::GoOn>(112).size(), 1u) << "the others have not come to the third one";
  for (ConnectionId id : {10, 11}) Say(id, members.at(id).NextSync());
  EXPECT_EQ(To<wire::GoOn>(112).size(), 2u);
}

TEST_F(LostGoOnTest, ARestartedCoordinatorHearsWhatWasAnswered) {
  Run();
  Restart();
  ReconnectAll({12, 20, 21});
  Say(112, members.at(112).NextSync());
  ASSERT_EQ(coordinator().epoch(), 1u);
  EXPECT_TRUE(To<wire::GoOn>(112).empty()) << "nobody has said that he was let go on";
  Reconnect(11, 111);
  EXPECT_EQ(To<wire::GoOn>(112), (std::vector<wire::GoOn>{{1, 2}}));
}

// Neither of the two answers ends the next sync point.
TEST_F(LostGoOnTest, AnAnswerThatComesTwiceCountsOnce) {
  Run();
  EXPECT_FALSE(members.at(10).OnMessage(wire::GoOn{1, 2}).go_on);
  EXPECT_FALSE(members.at(10).OnMessage(wire::GoOn{2, 3}).go_on);
  EXPECT_TRUE(members.at(10).OnMessage(wire::GoOn{1, 3}).go_on);
}

}  // namespace
}  // namespace byteps::protocol
