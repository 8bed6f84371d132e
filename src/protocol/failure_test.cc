// What a job survives: losses, restarts of the coordinator at each step, members that come and go.
#include <gtest/gtest.h>

#include "src/protocol/control_for_test.h"

namespace byteps::protocol {
namespace {

using wire::Suspicion;

// Three workers (10, 11, 12), two servers (20, 21); one worker is enough to go on.
class FailureTest : public ControlTest {
 protected:
  FailureTest() {
    options.worker_machines = 3;
    options.server_count = 2;
    options.min_workers = 1;
  }

  void Suspect(ConnectionId from, Role role, uint32_t index, Suspicion why,
               uint64_t incarnation = 0) {
    Say(from, wire::Suspect{role, index, incarnation, why, "said so"});
  }

  static std::vector<uint64_t> Workers(const wire::View& view) {
    std::vector<uint64_t> slots;
    for (const wire::WorkerInfo& one : view.workers) slots.push_back(one.slot);
    return slots;
  }

  // Messages of type T to `id` get lost.
  template <typename T>
  static bool Is(const wire::Message& message) {
    return std::holds_alternative<T>(message);
  }

  void ReconnectAll(const std::vector<ConnectionId>& ids) {
    for (ConnectionId id : ids) Reconnect(id, id + 100);
  }
};

TEST_F(FailureTest, ALostWorkerLeavesTheView) {
  StartJob();
  Lose(12);
  EXPECT_EQ(ViewOf(10).epoch, 1u) << "one closed connection may come back";
  Wait(milliseconds(100), {10, 11, 20, 21});
  EXPECT_EQ(ViewOf(10).epoch, 2u);
  EXPECT_EQ(Workers(ViewOf(10)), (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(ViewOf(10).generation, 1u);
  EXPECT_EQ(ViewOf(21), ViewOf(10));
  EXPECT_TRUE(Said("worker 2"));
  EXPECT_TRUE(driver.finished.empty());
}

TEST_F(FailureTest, TooFewWorkersEndTheJob) {
  options.min_workers = 3;
  StartJob();
  Lose(12);
  Wait(milliseconds(100), {10, 11, 20, 21});
  EXPECT_NE(EndText().find("needs 3 workers"), std::string::npos) << EndText();
}

TEST_F(FailureTest, AServersPlaceIsDeadUntilAnotherOneTakesIt) {
  StartJob();
  uint64_t old = IncarnationAt(21);
  Say(10, wire::Declare{"w", 0, {wire::Op::kSum, DataType::kFloat32, 0, {3}}, 1});
  Say(11, wire::Declare{"w", 0, {wire::Op::kSum, DataType::kFloat32, 0, {4}}, 1});
  Lose(21);
  Wait(milliseconds(100), {10, 11, 12, 20});
  ASSERT_EQ(ViewOf(10).servers.size(), 2u);
  EXPECT_FALSE(ViewOf(10).servers[1].alive);
  EXPECT_EQ(ViewOf(10).servers[1].since, 2u);
  EXPECT_EQ(ViewOf(10).servers[1].incarnation, old);
  EXPECT_TRUE(ViewOf(10).servers[0].alive);
  wire::Join other = Join(Role::kServer, 1);
  other.shards = 3;
  Say(30, other);
  ASSERT_EQ(To<wire::Refused>(30).size(), 1u);
  EXPECT_NE(To<wire::Refused>(30)[0].text.find("2 shards"), std::string::npos);
  wire::View before = ViewOf(10);
  Say(31, Join(Role::kServer, -1));
  EXPECT_TRUE(ViewOf(10).servers[1].alive);
  EXPECT_EQ(ViewOf(10).servers[1].since, 3u);
  EXPECT_EQ(ViewOf(10).servers[1].incarnation, IncarnationAt(31));
  EXPECT_EQ(ViewOf(10).servers[1].first_shard, before.servers[1].first_shard);
  EXPECT_EQ(ViewOf(10).servers[1].shard_weights, before.servers[1].shard_weights);
  EXPECT_EQ(ViewOf(10).generation, 1u);
  EXPECT_EQ(ViewOf(31), ViewOf(10));
  EXPECT_EQ(To<wire::DeclareFailed>(31).size(), 1u) << "it hears of retired tensors";
  Say(32, Join(Role::kServer, 1));
  EXPECT_EQ(To<wire::Refused>(32).size(), 1u) << "the place is taken again";
}

TEST_F(FailureTest, ARestartedServerComesBeforeTheOldOneWasMissed) {
  StartJob();
  Lose(21);
  Say(31, Join(Role::kServer, 1));
  EXPECT_TRUE(ViewOf(10).servers[1].alive);
  EXPECT_EQ(ViewOf(10).servers[1].incarnation, IncarnationAt(31));
  EXPECT_EQ(ViewOf(10).servers[1].since, ViewOf(10).epoch);
}

TEST_F(FailureTest, WithoutAServerTheJobWaitsForOneAndThenEnds) {
  StartJob();
  Lose(20);
  Lose(21);
  Wait(seconds(5), {10, 11, 12});
  EXPECT_FALSE(ViewOf(10).servers[0].alive);
  EXPECT_FALSE(ViewOf(10).servers[1].alive);
  EXPECT_TRUE(driver.finished.empty());
  Say(30, Join(Role::kServer, 0));
  EXPECT_TRUE(ViewOf(10).servers[0].alive);
  Wait(seconds(20), {10, 11, 12, 30});
  EXPECT_TRUE(driver.finished.empty());
  Lose(30);
  Wait(seconds(11), {10, 11, 12});
  EXPECT_NE(EndText().find("no server is left: server 0"), std::string::npos) << EndText();
}

TEST_F(FailureTest, ALossDuringAChangeIsFoldedIntoTheNextOne) {
  StartJob();
  deaf = {10, 11, 12, 20};
  Suspect(10, Role::kServer, 1, Suspicion::kNonsense);
  Suspect(10, Role::kWorker, 2, Suspicion::kNonsense);
  EXPECT_EQ(coordinator().epoch(), 1u);
  deaf.clear();
  for (ConnectionId id : {10, 11, 20}) Say(id, members.at(id).Greeting());  // asked once more
  EXPECT_EQ(ViewOf(10).epoch, 3u);
  EXPECT_EQ(Workers(ViewOf(10)), (std::vector<uint64_t>{0, 1}));
  EXPECT_FALSE(ViewOf(10).servers[1].alive);
  EXPECT_EQ(ViewOf(10).servers[1].since, 2u);
}

TEST_F(FailureTest, WithoutAQuorumTheJobEndsAndSaysWhomItCannotSee) {
  StartJob();
  deaf = {11, 12, 20};
  Suspect(10, Role::kServer, 1, Suspicion::kNonsense);
  Wait(seconds(11), {10, 11, 12, 20});
  EXPECT_NE(EndText().find("quorum lost: cannot see worker 1"), std::string::npos) << EndText();
}

TEST_F(FailureTest, ProofsOfDeathMakeAQuorum) {
  options.worker_machines = 2;
  StartJob();  // four voters
  deaf = {10, 20};
  Lose(10);
  Lose(20);
  Wait(milliseconds(200), {11, 21});
  EXPECT_EQ(coordinator().epoch(), 1u) << "half, without the lowest";
  Say(99, wire::Suspect{Role::kWorker, 0, IncarnationAt(10), Suspicion::kExited, "killed"});
  EXPECT_EQ(coordinator().epoch(), 2u);
  EXPECT_TRUE(driver.disconnected.empty()) << "a launcher may stay";
}

TEST_F(FailureTest, StrictCountsTheDead) {
  options.strict = true;
  options.worker_machines = 2;
  StartJob();
  deaf = {10, 20};
  Lose(10);
  Lose(20);
  Say(99, wire::Suspect{Role::kWorker, 0, IncarnationAt(10), Suspicion::kExited, "killed"});
  Wait(milliseconds(200), {11, 21});
  EXPECT_EQ(coordinator().epoch(), 1u);
}

// Suspicion.

TEST_F(FailureTest, TwoPartiesAreEnoughAtOnce) {
  StartJob();
  Suspect(10, Role::kServer, 1, Suspicion::kClosed);
  EXPECT_EQ(To<wire::Query>(21).size(), 1u) << "does it live?";
  EXPECT_EQ(coordinator().epoch(), 1u) << "it answered";
  deaf.insert(21);
  Suspect(10, Role::kServer, 1, Suspicion::kClosed);
  EXPECT_EQ(coordinator().epoch(), 1u);
  Suspect(11, Role::kServer, 1, Suspicion::kClosed);
  EXPECT_EQ(coordinator().epoch(), 2u);
}

TEST_F(FailureTest, OnePartyAndSilenceForTheGrace) {
  StartJob();
  deaf.insert(21);
  Suspect(10, Role::kServer, 1, Suspicion::kClosed);
  Wait(milliseconds(100), {10, 11, 12, 20});
  EXPECT_EQ(coordinator().epoch(), 2u);
}

TEST_F(FailureTest, WhoIsConnectedAgainWithinTheGraceIsNotLost) {
  StartJob();
  Lose(12);
  Wait(milliseconds(50), {10, 11, 20, 21});
  Reconnect(12, 112);
  Wait(seconds(1), {10, 11, 112, 20, 21});
  EXPECT_EQ(coordinator().epoch(), 1u);
}

TEST_F(FailureTest, SilenceEvicts) {
  StartJob();
  Wait(milliseconds(850), {10, 11, 20, 21});
  EXPECT_EQ(coordinator().epoch(), 1u);
  Wait(milliseconds(100), {10, 11, 20, 21});
  EXPECT_EQ(Workers(ViewOf(10)), (std::vector<uint64_t>{0, 1}));
}

TEST_F(FailureTest, OldNewsAndWordsAboutOneselfDoNotCount) {
  StartJob();
  Suspect(10, Role::kServer, 1, Suspicion::kNonsense, 999);
  Suspect(10, Role::kWorker, 0, Suspicion::kNonsense);
  EXPECT_EQ(coordinator().epoch(), 1u);
  Suspect(10, Role::kWorker, 2, Suspicion::kGaveUp);
  EXPECT_EQ(Workers(ViewOf(11)), (std::vector<uint64_t>{1, 2})) << "the sender means itself";
}

TEST_F(FailureTest, AnExitWithoutIncarnationIsBelievedWhenTheConnectionCloses) {
  StartJob();
  Say(99, wire::Suspect{Role::kServer, 1, 0, Suspicion::kExited, "killed"});
  EXPECT_EQ(coordinator().epoch(), 1u) << "this one is connected";
  Lose(21);
  EXPECT_EQ(coordinator().epoch(), 2u) << "without the grace";
}

TEST_F(FailureTest, OfTwoThatCannotTalkTheServerGoesWhenOneIsMissedOfMany) {
  options.server_count = 3;
  StartJob();
  Suspect(10, Role::kServer, 1, Suspicion::kUnreachable);
  EXPECT_FALSE(ViewOf(10).servers[1].alive);
  EXPECT_EQ(ViewOf(10).workers.size(), 3u);
  Suspect(10, Role::kServer, 2, Suspicion::kUnreachable);
  EXPECT_EQ(Workers(ViewOf(11)), (std::vector<uint64_t>{1, 2})) << "one of two: the worker";
}

TEST_F(FailureTest, WhenTheWorkerIsNeededTheServerGoes) {
  options.min_workers = 0;
  StartJob();
  Suspect(10, Role::kServer, 1, Suspicion::kUnreachable);
  EXPECT_FALSE(ViewOf(10).servers[1].alive);
  EXPECT_TRUE(driver.finished.empty());
}

// Restarts.

TEST_F(FailureTest, ARestartFindsTheSameViewUnderAHigherTerm) {
  StartJob();
  wire::View view = ViewOf(10);
  uint64_t term = coordinator().term();
  Restart();
  ReconnectAll({10, 11});
  EXPECT_EQ(coordinator().epoch(), 0u) << "two of five are no quorum";
  ReconnectAll({12});
  EXPECT_EQ(coordinator().view(), view);
  EXPECT_GT(coordinator().term(), term);
  ReconnectAll({20, 21});
  Wait(seconds(2), {110, 111, 112, 120, 121});
  EXPECT_EQ(ViewOf(121), view);
  EXPECT_TRUE(driver.finished.empty());
}

TEST_F(FailureTest, WhoDoesNotComeBackAfterARestartIsLost) {
  StartJob();
  Restart();
  ReconnectAll({10, 11, 12, 20});
  Wait(seconds(1), {110, 111, 112, 120});
  EXPECT_FALSE(ViewOf(110).servers[1].alive);
}

TEST_F(FailureTest, ARestartThatHearsTooFewEnds) {
  StartJob();
  Restart();
  ReconnectAll({10, 11});
  Wait(seconds(11), {110, 111});
  EXPECT_NE(EndText().find("cannot see worker 2"), std::string::npos) << EndText();
}

TEST_F(FailureTest, AProposalThatSomebodyPromisedIsCompleted) {
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

TEST_F(FailureTest, AProposalThatNobodyHeardIsForgotten) {
  StartJob();
  deaf = {10, 11, 12, 20, 21};
  Suspect(10, Role::kServer, 1, Suspicion::kNonsense);
  Restart();
  deaf.clear();
  ReconnectAll({10, 11, 12, 20, 21});
  EXPECT_EQ(ViewOf(110).epoch, 1u);
  EXPECT_EQ(coordinator().epoch(), 1u);
}

TEST_F(FailureTest, AViewThatOneMemberHeardOfIsKept) {
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

// The view that is completed had been followed by another one, of which those who were asked first
// do not know.
class ReadAgainTest : public FailureTest {
 protected:
  // Five voters; the first coordinator drops two of them, then a third.
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
  options.mistake = CoordinatorMistake::kReadOnce;
  Run();
  EXPECT_EQ(ViewOf(111).epoch, 3u);
  EXPECT_NE(ViewOf(111), ViewOf(10));
}

TEST_F(FailureTest, ACoordinatorThatWasSupersededIsNotObeyed) {
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

TEST_F(FailureTest, AProcessThatIsOutIsToldSo) {
  StartJob();
  deaf.insert(12);
  Suspect(10, Role::kWorker, 2, Suspicion::kNonsense);
  EXPECT_EQ(driver.disconnected.back(), 12u);
  deaf.clear();
  Reconnect(12, 112);
  EXPECT_TRUE(members.at(112).IsEvicted());
  EXPECT_EQ(driver.disconnected.back(), 112u);
}

TEST_F(FailureTest, ARestartedCoordinatorListensBeforeItMakesAFirstView) {
  options.restarted = true;
  StartJob();
  EXPECT_EQ(coordinator().epoch(), 0u);
  Wait(seconds(10), {10, 11, 12, 20, 21});
  EXPECT_EQ(coordinator().epoch(), 1u);
}

TEST_F(FailureTest, AFirstViewThatWasPromisedIsCompleted) {
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

// Declarations after a restart.

wire::Declare DeclareOf(const std::string& name, int64_t elements, uint32_t attempt = 0) {
  return {name, attempt, {wire::Op::kSum, DataType::kFloat32, 0, {elements}}, 1};
}

TEST_F(FailureTest, DeclarationsComeBackFromWorkers) {
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
  Say(110, wire::Known{{{a, spec_a}, {b, DeclareOf("b", 7).spec}, {x, DeclareOf("x", 3).spec}}, {}});
  Reconnect(10, 110);
  Say(111, wire::Known{{{a, spec_a}}, {failed}});
  Reconnect(11, 111);
  Reconnect(20, 120);
  EXPECT_EQ(coordinator().epoch(), 1u);
  Say(111, DeclareOf("b", 7));
  EXPECT_TRUE(To<wire::Declared>(111).empty()) << "worker 2 may know better";
  Say(112, wire::Known{{{a, spec_a}}, {}});
  Reconnect(12, 112);
  ASSERT_EQ(To<wire::Declared>(111).size(), 1u);
  EXPECT_EQ(To<wire::Declared>(111)[0], b);
  ASSERT_EQ(To<wire::DeclareFailed>(110).size(), 1u) << "failed beats declared";
  EXPECT_EQ(To<wire::DeclareFailed>(110)[0], failed);
  Say(112, DeclareOf("x", 3));
  EXPECT_EQ(To<wire::DeclareFailed>(112)[0], failed);
  Say(112, DeclareOf("new", 5));
  EXPECT_GE(To<wire::Declared>(112).back().tensor, 1u << 22) << "a range of its own";
  EXPECT_NE(To<wire::Declared>(112).back().placement, a.placement) << "dealing goes on";
}

TEST_F(FailureTest, ARepeatedDeclareIsAnsweredAgain) {
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

// Leaving and joining.

TEST_F(FailureTest, WhoLeavesAJobThatGoesOnIsNotInTheView) {
  options.min_workers = 2;
  StartJob();
  Say(12, wire::Leave{});
  EXPECT_EQ(Workers(ViewOf(10)), (std::vector<uint64_t>{0, 1}));
  EXPECT_EQ(To<wire::Leave>(12).size(), 1u);
  Say(11, wire::Leave{});
  ASSERT_EQ(ViewOf(10).workers.size(), 2u) << "the job does not go on without this one";
  EXPECT_TRUE(ViewOf(10).workers[1].left);
  Say(10, wire::Leave{});
  EXPECT_EQ(To<wire::Leave>(10).size(), 1u);
  EXPECT_TRUE(driver.finished.empty()) << "they may come back";
  for (ConnectionId id : {10, 11, 12}) Lose(id);
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_TRUE(driver.finished[0].ok());
}

TEST_F(FailureTest, WhoClosesWhileItLeavesIsNotLost) {
  options.min_workers = 3;
  StartJob();
  deaf = {10, 11, 20, 21};
  Say(12, wire::Leave{});
  Lose(12);
  Wait(seconds(1), {10, 11, 20, 21});
  EXPECT_TRUE(driver.finished.empty());
}

TEST_F(FailureTest, WorkersAreLetInWhenAllAreAtASyncPoint) {
  StartJob();
  Suspect(10, Role::kWorker, 1, Suspicion::kNonsense);
  Say(13, Join(Role::kWorker, 1));
  ASSERT_EQ(To<wire::Waiting>(13).size(), 1u);
  EXPECT_NE(To<wire::Waiting>(13)[0].text.find("sync point"), std::string::npos);
  Say(10, wire::Sync{1});
  EXPECT_EQ(coordinator().epoch(), 2u);
  Say(12, wire::Sync{1});
  EXPECT_EQ(ViewOf(13), ViewOf(10));
  EXPECT_EQ(ViewOf(10).generation, 2u);
  EXPECT_EQ(ViewOf(10).began, 3u);
  EXPECT_EQ(Workers(ViewOf(10)), (std::vector<uint64_t>{0, 2, 3})) << "a slot is never used again";
  EXPECT_EQ(ViewOf(10).workers[2].rank, 1u);
  EXPECT_TRUE(To<wire::GoOn>(10).empty());
}

TEST_F(FailureTest, WithNobodyToLetInEverybodyGoesOn) {
  StartJob();
  for (ConnectionId id : {10, 11}) Say(id, wire::Sync{1});
  EXPECT_TRUE(To<wire::GoOn>(10).empty());
  Say(12, wire::Sync{1});
  for (ConnectionId id : {10, 11, 12}) EXPECT_EQ(To<wire::GoOn>(id).size(), 1u);
  EXPECT_EQ(coordinator().epoch(), 1u);
}

// A promise that the restarted coordinator did not hear of may let workers in, long after the
// others went on.
TEST_F(FailureTest, AfterARestartGoingOnMakesOldPromisesVoid) {
  StartJob();
  Restart();
  ReconnectAll({10, 11, 12, 20, 21});
  for (ConnectionId id : {110, 111, 112}) Say(id, wire::Sync{1});
  for (ConnectionId id : {110, 111, 112}) EXPECT_EQ(To<wire::GoOn>(id).size(), 1u);
  EXPECT_EQ(ViewOf(110).epoch, 2u);
  EXPECT_EQ(ViewOf(110).generation, 1u);
}

}  // namespace
}  // namespace byteps::protocol
