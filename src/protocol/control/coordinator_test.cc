// Joining, declarations, generations and the end, without failures that a job survives.
#include "src/protocol/control/coordinator.h"

#include <gtest/gtest.h>

#include "src/protocol/control/control_for_test.h"

namespace byteps::protocol {
namespace {

using wire::Op;

class CoordinatorTest : public ControlTest {
 protected:
  std::string RefusalOf(const wire::Join& join) {
    Say(99, join);
    std::vector<wire::Refused> refused = To<wire::Refused>(99);
    if (refused.empty()) return "";
    EXPECT_EQ(driver.disconnected.back(), 99u);
    return refused.back().text;
  }

  static wire::Declare Declare(const std::string& name, int64_t elements, uint32_t attempt = 0,
                               uint64_t round = 1) {
    return {name, attempt, {Op::kSum, DataType::kFloat32, 0, {elements}}, round};
  }
};

TEST_F(CoordinatorTest, TheViewComesWhenAllAreHere) {
  Say(10, Join(Role::kWorker, -1));
  Say(20, Join(Role::kServer, -1));
  EXPECT_TRUE(To<wire::Propose>(10).empty());
  Say(11, Join(Role::kWorker, 0));
  ASSERT_EQ(To<wire::Propose>(10).size(), 1u);
  ASSERT_EQ(To<wire::Commit>(10).size(), 1u);
  const wire::View& view = ViewOf(10);
  EXPECT_EQ(view.epoch, 1u);
  EXPECT_EQ(view.generation, 1u);
  EXPECT_EQ(view.began, 1u);
  ASSERT_EQ(view.workers.size(), 2u);
  EXPECT_EQ(view.workers[1].incarnation, IncarnationAt(10)) << "rank 0 was asked for by the other";
  ASSERT_EQ(view.servers.size(), 1u);
  EXPECT_EQ(view.servers[0].shard_weights.size(), 2u);
  EXPECT_EQ(ViewOf(11), view);
  EXPECT_EQ(ViewOf(20), view);
}

TEST_F(CoordinatorTest, TheFirstViewNeedsEverybodysPromise) {
  deaf.insert(20);
  StartJob();
  EXPECT_TRUE(To<wire::Commit>(10).empty());
  Lose(20);  // nothing was in force: the job gathers on
  deaf.clear();
  Say(21, Join(Role::kServer, 0));
  EXPECT_EQ(To<wire::Commit>(10).size(), 1u);
  EXPECT_EQ(ViewOf(10), ViewOf(21));
  EXPECT_EQ(ViewOf(10).epoch, 1u);
}

TEST_F(CoordinatorTest, WhoDoesNotFitIsRefusedWithTheDifference) {
  Say(10, Join(Role::kWorker, 0));
  wire::Join join = Join(Role::kWorker, 1);
  join.version = "2";
  EXPECT_NE(RefusalOf(join).find("version 1"), std::string::npos);
  join = Join(Role::kWorker, 1);
  join.worker_count = 3;
  EXPECT_NE(RefusalOf(join).find("DMLC_NUM_WORKER"), std::string::npos);
  join.worker_count = 4;
  EXPECT_NE(RefusalOf(join).find("the others of 2"), std::string::npos);
  join.worker_count = UINT32_MAX - 1;
  EXPECT_NE(RefusalOf(join).find("up to"), std::string::npos);
  join = Join(Role::kWorker, 1);
  join.piece_bytes_max = 1;
  EXPECT_NE(RefusalOf(join).find("BYTEPS_PARTITION_BYTES"), std::string::npos);
  join = Join(Role::kWorker, 1);
  join.server_count = 2;
  EXPECT_NE(RefusalOf(join).find("DMLC_NUM_SERVER"), std::string::npos);
  EXPECT_NE(RefusalOf(Join(Role::kWorker, 2)).find("does not exist"), std::string::npos);
  EXPECT_NE(RefusalOf(Join(Role::kWorker, 0)).find("taken by worker 0"), std::string::npos);
  EXPECT_NE(RefusalOf(Join(Role::kCoordinator, 0)).find("coordinator"), std::string::npos);
  join = Join(Role::kServer, 0);
  for (uint32_t shards : {0U, UINT32_MAX}) {
    join.shards = shards;
    EXPECT_NE(RefusalOf(join).find("shards"), std::string::npos);
  }
  Say(11, Join(Role::kWorker, -1));
  EXPECT_NE(RefusalOf(Join(Role::kWorker, -1)).find("all its places"), std::string::npos);
  Say(20, Join(Role::kServer, 0));
  EXPECT_EQ(To<wire::Commit>(10).size(), 1u) << "none of this kept the job from starting";
}

TEST_F(CoordinatorTest, WaitingSaysWhoIsMissingAndGivesUp) {
  Say(10, Join(Role::kWorker, 0));
  Wait(seconds(5));
  ASSERT_EQ(driver.reports.size(), 1u);
  EXPECT_EQ(driver.reports[0],
            "waiting: 1/2 workers, 0/1 servers; missing worker 1; missing 1 server; waited 5 s");
  EXPECT_EQ(To<wire::Waiting>(10).size(), 1u);
  Wait(seconds(115));
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_EQ(driver.finished[0].code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(To<wire::JobOver>(10).size(), 1u);
  EXPECT_FALSE(coordinator().NextTick().has_value());
}

TEST_F(CoordinatorTest, APlaceIsFreeAgainWhenItsProcessGoesAwayBeforeTheStart) {
  wire::Join four = Join(Role::kWorker, 0);
  four.worker_count = 4;
  Say(10, four);
  Lose(10);
  StartJob();  // another number of workers
  EXPECT_EQ(To<wire::Commit>(11).size(), 1u);
  EXPECT_TRUE(driver.finished.empty());
}

TEST_F(CoordinatorTest, WhoLeavesBeforeTheStartMakesRoom) {
  wire::Join four = Join(Role::kWorker, 0);
  four.worker_count = 4;
  Say(9, four);
  Say(9, wire::Leave{});
  EXPECT_EQ(To<wire::Leave>(9).size(), 1u);
  StartJob();
  EXPECT_EQ(To<wire::Commit>(11).size(), 1u);
}

TEST_F(CoordinatorTest, ALostWorkerEndsAJobThatNeedsItForEverybodyOnce) {
  StartJob();
  Lose(11);
  Lose(20);
  Wait(milliseconds(200), {10});
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_EQ(driver.finished[0].code(), StatusCode::kPeerLost);
  EXPECT_NE(EndText().find("worker 1"), std::string::npos) << EndText();
  EXPECT_NE(EndText().find("checkpoint"), std::string::npos) << EndText();
  EXPECT_EQ(To<wire::JobOver>(10).size(), 1u);
}

TEST_F(CoordinatorTest, SilenceIsLoss) {
  StartJob();
  Wait(milliseconds(4900), {10, 20});
  EXPECT_TRUE(driver.finished.empty());
  Wait(milliseconds(200), {10, 20});
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_NE(EndText().find("worker 1"), std::string::npos) << EndText();
  EXPECT_NE(EndText().find("silent"), std::string::npos) << EndText();
}

// The coordinator's timer runs before it reads what has come in.
TEST_F(CoordinatorTest, ACoordinatorThatStoodStillListensBeforeItJudges) {
  StartJob();
  for (int i = 0; i < 3; ++i) {
    StandStill(seconds(60));
    for (ConnectionId id : {10, 11, 20}) Say(id, wire::Alive{});
    EXPECT_TRUE(driver.finished.empty());
  }
  StandStill(seconds(60));
  Wait(seconds(17));  // all are silent: its own link is doubted first
  EXPECT_EQ(driver.finished.size(), 1u) << "and then does judge";
}

TEST_F(CoordinatorTest, HeartbeatsAreAnswered) {
  StartJob();
  Say(10, wire::Alive{});
  EXPECT_EQ(To<wire::Alive>(10).size(), 1u);
  EXPECT_TRUE(To<wire::Alive>(11).empty());
}

TEST_F(CoordinatorTest, StrangersAreSentAway) {
  StartJob();
  Say(99, wire::Suspect{Role::kServer, 0, 0, wire::Suspicion::kNonsense, "x"});
  EXPECT_EQ(driver.disconnected, (std::vector<ConnectionId>{99}));
  EXPECT_TRUE(driver.reports.empty());
}

TEST_F(CoordinatorTest, DeclarationsAgreeOnIdAndPlacement) {
  StartJob();
  Say(11, Declare("w", 100000));
  Say(10, Declare("w", 100000));
  Say(10, Declare("v", 3));
  Say(11, Declare("v", 3));
  auto first = To<wire::Declared>(10);
  auto second = To<wire::Declared>(11);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first, second);
  EXPECT_NE(first[0].tensor, first[1].tensor);
  EXPECT_NE(first[0].placement, first[1].placement) << "the dealer went on";
}

TEST_F(CoordinatorTest, AMismatchNamesBothSidesOnEveryRank) {
  StartJob();
  Say(10, Declare("w", 3));
  Say(11, Declare("w", 4));
  for (ConnectionId id : {10, 11, 20}) {
    auto failed = To<wire::DeclareFailed>(id);
    ASSERT_EQ(failed.size(), 1u) << id;
    EXPECT_NE(failed[0].text.find("rank 0 has sum of float32[3]"), std::string::npos);
    EXPECT_NE(failed[0].text.find("rank 1 has sum of float32[4]"), std::string::npos);
  }
  // The next attempt is decided afresh, whoever comes first. Ranks that ask late see every attempt.
  Say(11, Declare("w", 5, 1));
  Say(10, Declare("w", 5, 1));
  EXPECT_EQ(To<wire::Declared>(10).back().attempt, 1u);
  EXPECT_EQ(To<wire::Declared>(10).back(), To<wire::Declared>(11).back());
  size_t sent = driver.sent.size();
  Say(10, Declare("w", 5, 7));  // skips attempts
  EXPECT_EQ(driver.sent.size(), sent);
}

TEST_F(CoordinatorTest, WhoAsksAfterAMismatchFailsTheSameAttempt) {
  options.worker_machines = 3;
  StartJob();
  Say(10, Declare("w", 3));
  Say(11, Declare("w", 4));
  EXPECT_TRUE(To<wire::DeclareFailed>(12).empty());
  Say(12, Declare("w", 3));
  ASSERT_EQ(To<wire::DeclareFailed>(12).size(), 1u);
  EXPECT_EQ(To<wire::DeclareFailed>(12)[0], To<wire::DeclareFailed>(11)[0]);
}

TEST_F(CoordinatorTest, ShapesThatNobodyCanHoldFailEverywhere) {
  StartJob();
  for (int64_t elements : {int64_t{-1}, int64_t{1} << 62, int64_t{1} << 42}) {
    std::string name = "w" + std::to_string(elements);
    Say(10, Declare(name, elements));
    Say(11, Declare(name, elements));
    EXPECT_EQ(To<wire::DeclareFailed>(10).back(), To<wire::DeclareFailed>(11).back());
    EXPECT_EQ(To<wire::DeclareFailed>(10).back().name, name);
  }
  EXPECT_TRUE(To<wire::Declared>(10).empty());
}

class GenerationsTest : public CoordinatorTest {
 protected:
  void LeaveAll() {
    Say(10, wire::Leave{});
    Say(11, wire::Leave{});
  }
};

TEST_F(GenerationsTest, AJobThatNeedsAllKeepsWhoLeftInItsView) {
  StartJob();
  Say(11, wire::Leave{false});
  EXPECT_EQ(ViewOf(10).epoch, 2u);
  ASSERT_EQ(ViewOf(10).workers.size(), 2u);
  EXPECT_TRUE(ViewOf(20).workers[1].left);
  EXPECT_FALSE(ViewOf(20).workers[0].left);
  EXPECT_EQ(To<wire::Leave>(11).size(), 1u);
  Say(11, wire::Leave{});
  EXPECT_EQ(To<wire::Leave>(11).size(), 2u) << "asked again, told again";
  EXPECT_EQ(ViewOf(10).epoch, 2u);
}

TEST_F(GenerationsTest, AfterAllHaveLeftAnotherGenerationGathers) {
  StartJob();
  Say(10, Declare("w", 3));
  Say(10, wire::Leave{});
  Say(12, Join(Role::kWorker, 0));  // back before the other one has left
  EXPECT_TRUE(To<wire::Commit>(12).empty());
  Say(11, wire::Leave{});
  EXPECT_TRUE(driver.finished.empty());
  Say(13, Join(Role::kWorker, 1));
  ASSERT_EQ(To<wire::Commit>(12).size(), 1u);
  EXPECT_EQ(ViewOf(12).generation, 2u);
  EXPECT_EQ(ViewOf(20), ViewOf(12));
  EXPECT_EQ(ViewOf(12).workers.size(), 2u);
  Say(12, Declare("w", 4));  // names start afresh
  EXPECT_EQ(To<wire::Declared>(12).size(), 1u);
}

TEST_F(GenerationsTest, WaitingForTheNextGenerationIsReportedAndBounded) {
  StartJob();
  Wait(seconds(200), {10, 11, 20});
  LeaveAll();
  EXPECT_TRUE(driver.reports.empty());
  Say(12, Join(Role::kWorker, 0));
  Wait(seconds(119), {12, 20});
  EXPECT_TRUE(driver.finished.empty());
  ASSERT_FALSE(driver.reports.empty());
  EXPECT_NE(driver.reports[0].find("missing worker 1"), std::string::npos);
  EXPECT_TRUE(To<wire::Waiting>(11).empty()) << "who has left is not bothered";
  Wait(seconds(2), {12, 20});
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_EQ(driver.finished[0].code(), StatusCode::kDeadlineExceeded);
}

TEST_F(GenerationsTest, TheJobEndsInOrderWhenNobodyCanComeBack) {
  StartJob();
  LeaveAll();
  Lose(10);
  EXPECT_TRUE(driver.finished.empty()) << "the process of worker 1 still lives";
  Lose(11);
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_TRUE(driver.finished[0].ok());
  EXPECT_EQ(To<wire::JobOver>(20).size(), 1u);
}

TEST_F(GenerationsTest, TheLastServerLostBetweenGenerationsEndsTheJob) {
  StartJob();
  LeaveAll();
  Lose(20);
  Wait(seconds(20));
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_EQ(driver.finished[0].code(), StatusCode::kPeerLost);
  EXPECT_NE(EndText().find("server 0"), std::string::npos) << EndText();
}

// Placement finds no solution, and the job must not start after it has ended.
TEST_F(CoordinatorTest, AJobThatCannotBePlacedEndsOnce) {
  options.server_count = 0;
  StartJob();
  EXPECT_EQ(driver.finished.size(), 1u);
  EXPECT_TRUE(To<wire::Commit>(10).empty());
  EXPECT_EQ(To<wire::JobOver>(10).size(), 1u);
}

}  // namespace
}  // namespace byteps::protocol
