// A job survives these: losses, and members that come and go.
#include <gtest/gtest.h>

#include "src/protocol/control/failure_for_test.h"

namespace byteps::protocol {
namespace {

using wire::Suspicion;

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

// Simulated seed 2077047: the worker's connection was cut, and the others came to their end
// meanwhile.
TEST_F(FailureTest, WhoWasLeftBehindHearsItThoughTheJobIsOver) {
  StartJob();
  Lose(12);
  Wait(milliseconds(100), {10, 11, 20, 21});
  for (ConnectionId worker : {10, 11}) Say(worker, wire::Leave{});
  for (ConnectionId worker : {10, 11}) Lose(worker);
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_FALSE(members.at(12).IsEvicted());
  Say(12, members.at(12).Greeting());
  EXPECT_TRUE(members.at(12).IsEvicted());
  EXPECT_EQ(To<wire::JobOver>(12).size(), 1u);
  Say(11, members.at(11).Greeting());
  EXPECT_FALSE(members.at(11).IsEvicted()) << "it has left in order";
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

// Tests of suspicion.

TEST_F(FailureTest, WhoIsAwayForTheCoordinatorAndAnotherOneIsLostAlmostAtOnce) {
  StartJob();
  deaf.insert(21);
  Suspect(10, Role::kServer, 1, Suspicion::kClosed);
  EXPECT_EQ(To<wire::Query>(21).size(), 1u) << "does it live?";
  EXPECT_EQ(coordinator().epoch(), 1u);
  Lose(21);
  Wait(milliseconds(10), {10, 11, 12, 20});
  EXPECT_EQ(coordinator().epoch(), 2u);
}

// All connections are reset when a firewall starts again, or addresses change.
TEST_F(FailureTest, ConnectionsThatAreAllResetTogetherAccuseNobodyWhoComesBack) {
  StartJob();
  for (ConnectionId id : {10, 11, 12, 20, 21}) {
    if (id != 20) Suspect(20, Role::kServer, 1, Suspicion::kClosed);
    Lose(id);
  }
  Wait(milliseconds(60));
  for (ConnectionId id : {10, 11, 12, 20, 21}) Reconnect(id, id + 100);
  for (ConnectionId id : {110, 111, 112}) Suspect(id, Role::kServer, 1, Suspicion::kClosed);
  Wait(seconds(1), {110, 111, 112, 120, 121});
  EXPECT_EQ(coordinator().epoch(), 1u);
  EXPECT_TRUE(driver.finished.empty()) << EndText();
}

TEST_F(FailureTest, OfManyResetTogetherWhoStaysAwayForTheGraceIsLost) {
  StartJob();
  Lose(12);
  Lose(21);
  Suspect(20, Role::kWorker, 2, Suspicion::kClosed);
  Wait(milliseconds(60), {10, 11, 20});
  Reconnect(21, 121);
  Wait(milliseconds(20), {10, 11, 20, 121});
  EXPECT_EQ(coordinator().epoch(), 1u) << "it has not gone alone, though it is the last one";
  Wait(milliseconds(60), {10, 11, 20, 121});
  EXPECT_EQ(Workers(ViewOf(10)), (std::vector<uint64_t>{0, 1}));
  EXPECT_TRUE(ViewOf(10).servers[1].alive);
}

// Simulated seed 6045. Something between the members forgot many connections at once.
TEST_F(FailureTest, WhoAnswersIsNotLostThoughManyOfItsConnectionsWereClosed) {
  StartJob();
  deaf.insert(12);
  Suspect(20, Role::kWorker, 2, Suspicion::kClosed);
  Suspect(21, Role::kWorker, 2, Suspicion::kClosed);
  EXPECT_EQ(coordinator().epoch(), 1u) << "the answer is on its way";
  deaf.clear();
  Say(12, members.at(12).Greeting());
  Wait(seconds(1), {10, 11, 12, 20, 21});
  EXPECT_EQ(coordinator().epoch(), 1u);
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

// The connections of one server are cut, except the one to the coordinator.
TEST_F(FailureTest, AServerThatNobodyReachesCostsNoWorker) {
  StartJob();
  for (ConnectionId worker : {10, 11, 12}) {
    Suspect(worker, Role::kServer, 1, Suspicion::kUnreachable);
  }
  EXPECT_FALSE(ViewOf(10).servers[1].alive);
  EXPECT_TRUE(ViewOf(10).servers[0].alive);
  EXPECT_EQ(ViewOf(10).workers.size(), 3u);
}

TEST_F(FailureTest, AWorkerThatReachesNobodyCostsOneServer) {
  options.server_count = 4;
  StartJob();
  Suspect(10, Role::kServer, 1, Suspicion::kUnreachable);
  Suspect(10, Role::kServer, 2, Suspicion::kUnreachable);
  EXPECT_EQ(Workers(ViewOf(11)), (std::vector<uint64_t>{1, 2}));
  EXPECT_FALSE(ViewOf(11).servers[1].alive);
  EXPECT_TRUE(ViewOf(11).servers[2].alive);
}

TEST_F(FailureTest, WhatAWorkerMissedLongAgoIsNotHeldAgainstIt) {
  options.server_count = 4;
  StartJob();
  Suspect(10, Role::kServer, 1, Suspicion::kUnreachable);
  Wait(seconds(6), {10, 11, 12, 20, 22, 23});
  Suspect(10, Role::kServer, 2, Suspicion::kUnreachable);
  EXPECT_FALSE(ViewOf(11).servers[2].alive);
  EXPECT_EQ(ViewOf(11).workers.size(), 3u);
}

TEST_F(FailureTest, WhenTheWorkerIsNeededTheServerGoes) {
  options.min_workers = 0;
  StartJob();
  Suspect(10, Role::kServer, 1, Suspicion::kUnreachable);
  EXPECT_FALSE(ViewOf(10).servers[1].alive);
  EXPECT_TRUE(driver.finished.empty());
}

// Tests of leaving and joining.

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
  EXPECT_NE(To<wire::Waiting>(13)[0].text.find("when all others call"), std::string::npos);
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

// A member that hears of a generation late must learn how many began it, whoever tells it.
TEST_F(FailureTest, AViewNamesThoseThatAreGoneUntilTheNextGeneration) {
  options.min_workers = 1;
  StartJob();
  Lose(10);
  Wait(milliseconds(100), {11, 12, 20, 21});
  EXPECT_EQ(Workers(ViewOf(11)), (std::vector<uint64_t>{1, 2}));
  ASSERT_EQ(ViewOf(11).gone.size(), 1u);
  EXPECT_EQ(ViewOf(11).gone[0].slot, 0u);
  Say(12, wire::Leave{});
  ASSERT_EQ(ViewOf(11).gone.size(), 2u) << "who leaves, too";
  EXPECT_EQ(wire::WorkersOfGeneration(ViewOf(11)).size(), 3u);
  Restart();
  ReconnectAll({11, 20, 21});
  Say(13, Join(Role::kWorker, 0));
  Say(111, wire::Sync{1});
  EXPECT_EQ(ViewOf(111).generation, 2u);
  EXPECT_EQ(Workers(ViewOf(111)), (std::vector<uint64_t>{1, 3})) << "not slot 2 once more";
  EXPECT_TRUE(ViewOf(111).gone.empty());
}

TEST_F(FailureTest, WithNobodyToLetInEverybodyGoesOn) {
  StartJob();
  for (ConnectionId id : {10, 11}) Say(id, wire::Sync{1});
  EXPECT_TRUE(To<wire::GoOn>(10).empty());
  Say(12, wire::Sync{1});
  for (ConnectionId id : {10, 11, 12}) EXPECT_EQ(To<wire::GoOn>(id).size(), 1u);
  EXPECT_EQ(coordinator().epoch(), 1u);
}

// Servers 0 and 1 had not heard of the generation yet when the workers closed its connections.
TEST_F(FailureTest, ConnectionsThatEndWithTheirGenerationAccuseNobody) {
  StartJob();
  Suspect(10, Role::kWorker, 2, Suspicion::kNonsense);
  Say(13, Join(Role::kWorker, 2));
  for (ConnectionId id : {10, 11}) Say(id, wire::Sync{1});
  ASSERT_EQ(coordinator().view().generation, 2u);
  deaf = {10};
  for (ConnectionId id : {20, 21}) {
    Say(id, wire::Suspect{Role::kWorker, 0, IncarnationAt(10), Suspicion::kClosed, "x", 1});
  }
  Wait(milliseconds(100), {11, 13, 20, 21});
  EXPECT_EQ(Workers(coordinator().view()), (std::vector<uint64_t>{0, 1, 3}));
  for (ConnectionId id : {20, 21}) {
    Say(id, wire::Suspect{Role::kWorker, 0, IncarnationAt(10), Suspicion::kClosed, "x", 2});
  }
  Wait(milliseconds(100), {11, 13, 20, 21});
  EXPECT_EQ(Workers(coordinator().view()), (std::vector<uint64_t>{1, 3}));
}

}  // namespace
}  // namespace byteps::protocol
