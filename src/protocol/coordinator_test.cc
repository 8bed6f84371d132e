#include "src/protocol/coordinator.h"

#include <gtest/gtest.h>

#include "src/protocol/recording_for_test.h"

namespace byteps::protocol {
namespace {

constexpr Time kStart{};
using testing::Test;
using wire::Op;

class CoordinatorTest : public Test {
 protected:
  static CoordinatorOptions Options() {
    CoordinatorOptions options;
    options.worker_machines = 2;
    options.version = "1";
    return options;
  }

  static wire::Join Join(Role role, int32_t rank) {
    wire::Join join;
    join.role = role;
    join.rank = rank;
    join.host = "h";
    join.shards = role == Role::kServer ? 2 : 0;
    join.worker_count = 2;
    join.server_count = 1;
    join.piece_bytes_max = 32768;
    join.version = "1";
    join.process = 42;
    return join;
  }

  void Say(ConnectionId from, const wire::Message& message) {
    coordinator.OnMessage(from, message, now);
  }

  // Worker 0 on connection 10, worker 1 on 11, the server on 20.
  void StartJob() {
    Say(10, Join(Role::kWorker, 0));
    Say(11, Join(Role::kWorker, 1));
    Say(20, Join(Role::kServer, 0));
  }

  std::string RefusalOf(const wire::Join& join) {
    Say(99, join);
    std::vector<wire::Refused> refused = driver.To<wire::Refused>(99);
    if (refused.empty()) return "";
    EXPECT_EQ(driver.disconnected.back(), 99u);
    return refused.back().text;
  }

  static wire::Declare Declare(const std::string& name, int64_t elements, uint32_t attempt = 0,
                               uint64_t round = 1) {
    return {name, attempt, {Op::kSum, DataType::kFloat32, 0, {elements}}, round};
  }

  void Wait(Duration duration) {
    now += duration;
    while (coordinator.NextTick().has_value() && *coordinator.NextTick() <= now) {
      coordinator.OnTick(now);
    }
  }

  RecordingCoordinatorDriver driver;
  Coordinator coordinator{Options(), driver, kStart};
  Time now = kStart;
};

TEST_F(CoordinatorTest, TheViewComesWhenAllAreHere) {
  Say(10, Join(Role::kWorker, -1));
  Say(20, Join(Role::kServer, -1));
  EXPECT_TRUE(driver.To<wire::View>(10).empty());
  Say(11, Join(Role::kWorker, 0));
  ASSERT_EQ(driver.To<wire::View>(10).size(), 1u);
  wire::View view = driver.To<wire::View>(10)[0];
  EXPECT_EQ(view.slot, 1u) << "rank 0 was asked for by the other one";
  EXPECT_EQ(driver.To<wire::View>(11)[0].slot, 0u);
  EXPECT_EQ(driver.To<wire::View>(20)[0].slot, kNoSlot);
  EXPECT_EQ(view.epoch, 1u);
  EXPECT_EQ(view.generation, 1u);
  ASSERT_EQ(view.servers.size(), 1u);
  EXPECT_EQ(view.servers[0].shard_weights.size(), 2u);
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
  EXPECT_EQ(driver.To<wire::View>(10).size(), 1u) << "none of this kept the job from starting";
}

TEST_F(CoordinatorTest, WaitingSaysWhoIsMissingAndGivesUp) {
  Say(10, Join(Role::kWorker, 0));
  Wait(seconds(5));
  ASSERT_EQ(driver.reports.size(), 1u);
  EXPECT_EQ(driver.reports[0],
            "waiting: 1/2 workers, 0/1 servers; missing worker 1; missing 1 server; waited 5 s");
  EXPECT_EQ(driver.To<wire::Waiting>(10).size(), 1u);
  Wait(seconds(115));
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_EQ(driver.finished[0].code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(driver.To<wire::JobOver>(10).size(), 1u);
  EXPECT_FALSE(coordinator.NextTick().has_value());
}

TEST_F(CoordinatorTest, APlaceIsFreeAgainWhenItsProcessGoesAwayBeforeTheStart) {
  wire::Join four = Join(Role::kWorker, 0);
  four.worker_count = 4;
  Say(10, four);
  coordinator.OnLost(10, "closed");
  StartJob();  // another number of workers
  EXPECT_EQ(driver.To<wire::View>(11).size(), 1u);
  EXPECT_TRUE(driver.finished.empty());
}

TEST_F(CoordinatorTest, WhoLeavesBeforeTheStartMakesRoom) {
  wire::Join four = Join(Role::kWorker, 0);
  four.worker_count = 4;
  Say(9, four);
  Say(9, wire::Leave{});
  EXPECT_EQ(driver.To<wire::Leave>(9).size(), 1u);
  StartJob();
  EXPECT_EQ(driver.To<wire::View>(11).size(), 1u);
}

TEST_F(CoordinatorTest, ALostMemberEndsTheJobForEverybodyOnce) {
  StartJob();
  coordinator.OnLost(11, "connection reset");
  coordinator.OnLost(20, "connection reset");
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_EQ(driver.finished[0].code(), StatusCode::kPeerLost);
  EXPECT_NE(driver.finished[0].message().find("worker 1"), std::string::npos);
  EXPECT_EQ(driver.To<wire::JobOver>(10).size(), 1u);
  EXPECT_EQ(driver.To<wire::JobOver>(20).size(), 1u);
}

TEST_F(CoordinatorTest, SuspicionCountsFromMembersOnly) {
  StartJob();
  wire::Suspect suspect{Role::kServer, 0, "closed"};
  Say(99, suspect);  // a stranger
  EXPECT_EQ(driver.disconnected, (std::vector<ConnectionId>{99}));
  Say(11, wire::Leave{});
  Say(11, suspect);  // has left
  EXPECT_TRUE(driver.finished.empty());
  Say(10, suspect);
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_NE(driver.finished[0].message().find("server 0"), std::string::npos);
}

TEST_F(CoordinatorTest, SilenceIsLoss) {
  StartJob();
  for (int i = 0; i < 20; ++i) {
    Wait(milliseconds(500));
    Say(10, wire::Alive{});
    if (i < 10) Say(11, wire::Alive{});
    Say(20, wire::Alive{});
  }
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_NE(driver.finished[0].message().find("worker 1"), std::string::npos);
  EXPECT_NE(driver.finished[0].message().find("5 s"), std::string::npos);
}

// Its timer runs before it reads what has come in.
TEST_F(CoordinatorTest, ACoordinatorThatStoodStillListensBeforeItJudges) {
  StartJob();
  for (int i = 0; i < 3; ++i) {
    now += seconds(60);
    coordinator.OnTick(now);
    coordinator.OnTick(now);
    for (ConnectionId id : {10, 11, 20}) Say(id, wire::Alive{});
    EXPECT_TRUE(driver.finished.empty());
  }
  now += seconds(60);
  coordinator.OnTick(now);
  Wait(seconds(1));
  EXPECT_EQ(driver.finished.size(), 1u) << "and then does judge";
}

TEST_F(CoordinatorTest, DeclarationsAgreeOnIdAndPlacement) {
  StartJob();
  Say(11, Declare("w", 100000));
  Say(10, Declare("w", 100000));
  Say(10, Declare("v", 3));
  Say(11, Declare("v", 3));
  auto first = driver.To<wire::Declared>(10);
  auto second = driver.To<wire::Declared>(11);
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
    auto failed = driver.To<wire::DeclareFailed>(id);
    ASSERT_EQ(failed.size(), 1u) << id;
    EXPECT_NE(failed[0].text.find("rank 0 has sum of float32[3]"), std::string::npos);
    EXPECT_NE(failed[0].text.find("rank 1 has sum of float32[4]"), std::string::npos);
  }
  // The next attempt is decided afresh, whoever comes first; late askers see every attempt.
  Say(11, Declare("w", 5, 1));
  Say(10, Declare("w", 5, 1));
  EXPECT_EQ(driver.To<wire::Declared>(10).back().attempt, 1u);
  EXPECT_EQ(driver.To<wire::Declared>(10).back(), driver.To<wire::Declared>(11).back());
  size_t sent = driver.sent.size();
  Say(10, Declare("w", 5, 7));  // skips attempts
  EXPECT_EQ(driver.sent.size(), sent);
}

TEST_F(CoordinatorTest, WhoAsksAfterAMismatchFailsTheSameAttempt) {
  CoordinatorOptions options = Options();
  options.worker_machines = 3;
  Coordinator three(options, driver, kStart);
  auto join = [&](ConnectionId id, Role role, int32_t rank) {
    wire::Join message = Join(role, rank);
    message.worker_count = 3;
    three.OnMessage(id, message, now);
  };
  for (int32_t rank = 0; rank < 3; ++rank) join(10 + rank, Role::kWorker, rank);
  join(20, Role::kServer, 0);
  three.OnMessage(10, Declare("w", 3), now);
  three.OnMessage(11, Declare("w", 4), now);
  EXPECT_TRUE(driver.To<wire::DeclareFailed>(12).empty());
  three.OnMessage(12, Declare("w", 3), now);
  ASSERT_EQ(driver.To<wire::DeclareFailed>(12).size(), 1u);
  EXPECT_EQ(driver.To<wire::DeclareFailed>(12)[0], driver.To<wire::DeclareFailed>(11)[0]);
}

TEST_F(CoordinatorTest, ShapesThatNobodyCanHoldFailEverywhere) {
  StartJob();
  for (int64_t elements : {int64_t{-1}, int64_t{1} << 62, int64_t{1} << 42}) {
    std::string name = "w" + std::to_string(elements);
    Say(10, Declare(name, elements));
    Say(11, Declare(name, elements));
    EXPECT_EQ(driver.To<wire::DeclareFailed>(10).back(), driver.To<wire::DeclareFailed>(11).back());
    EXPECT_EQ(driver.To<wire::DeclareFailed>(10).back().name, name);
  }
  EXPECT_TRUE(driver.To<wire::Declared>(10).empty());
}

class GenerationsTest : public CoordinatorTest {
 protected:
  void LeaveAll() {
    Say(10, wire::Leave{});
    Say(11, wire::Leave{});
  }
};

TEST_F(GenerationsTest, LeavingIsToldToServersAndAnswered) {
  StartJob();
  Say(11, wire::Leave{false});
  ASSERT_EQ(driver.To<wire::Left>(20).size(), 1u);
  EXPECT_EQ(driver.To<wire::Left>(20)[0].slot, 1u);
  EXPECT_NE(driver.To<wire::Left>(20)[0].text.find("worker 1"), std::string::npos);
  EXPECT_EQ(driver.To<wire::Leave>(11).size(), 1u);
  Say(11, wire::Leave{});
  EXPECT_EQ(driver.To<wire::Left>(20).size(), 1u);
}

TEST_F(GenerationsTest, AfterAllHaveLeftAnotherGenerationGathers) {
  StartJob();
  Say(10, Declare("w", 3));
  Say(10, wire::Leave{});
  Say(12, Join(Role::kWorker, 0));  // back before the other one has left
  EXPECT_TRUE(driver.To<wire::View>(12).empty());
  Say(11, wire::Leave{});
  EXPECT_TRUE(driver.finished.empty());
  Say(13, Join(Role::kWorker, 1));
  ASSERT_EQ(driver.To<wire::View>(12).size(), 1u);
  EXPECT_EQ(driver.To<wire::View>(12)[0].generation, 2u);
  EXPECT_EQ(driver.To<wire::View>(20).size(), 2u);
  EXPECT_EQ(driver.To<wire::View>(12)[0].workers.size(), 2u);
  Say(12, Declare("w", 4));  // names start afresh
  EXPECT_EQ(driver.To<wire::Declared>(12).size(), 1u);
}

TEST_F(GenerationsTest, WaitingForTheNextGenerationIsReportedAndBounded) {
  StartJob();
  for (int i = 0; i < 600; ++i) {  // ten minutes of work
    Wait(seconds(1));
    for (ConnectionId id : {10, 11, 20}) Say(id, wire::Alive{});
  }
  LeaveAll();
  EXPECT_TRUE(driver.reports.empty());
  Say(12, Join(Role::kWorker, 0));
  for (int i = 0; i < 119; ++i) {
    Wait(seconds(1));
    for (ConnectionId id : {12, 20}) Say(id, wire::Alive{});
  }
  EXPECT_TRUE(driver.finished.empty());
  ASSERT_FALSE(driver.reports.empty());
  EXPECT_NE(driver.reports[0].find("missing worker 1"), std::string::npos);
  EXPECT_TRUE(driver.To<wire::Waiting>(11).empty()) << "who has left is not bothered";
  Wait(seconds(2));
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_EQ(driver.finished[0].code(), StatusCode::kDeadlineExceeded);
}

TEST_F(GenerationsTest, TheJobEndsInOrderWhenNobodyCanComeBack) {
  StartJob();
  LeaveAll();
  coordinator.OnLost(10, "closed");
  EXPECT_TRUE(driver.finished.empty()) << "the process of worker 1 still lives";
  coordinator.OnLost(11, "closed");
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_TRUE(driver.finished[0].ok());
  EXPECT_EQ(driver.To<wire::JobOver>(20).size(), 1u);
}

TEST_F(GenerationsTest, AServerLostBetweenGenerationsEndsTheJob) {
  StartJob();
  LeaveAll();
  coordinator.OnLost(20, "closed");
  ASSERT_EQ(driver.finished.size(), 1u);
  EXPECT_EQ(driver.finished[0].code(), StatusCode::kPeerLost);
}

// Placement finds no solution: the job must not start after it has ended.
TEST_F(CoordinatorTest, AJobThatCannotBePlacedEndsOnce) {
  CoordinatorOptions options = Options();
  options.server_count = 0;
  Coordinator none(options, driver, kStart);
  for (int32_t rank = 0; rank < 2; ++rank) {
    wire::Join join = Join(Role::kWorker, rank);
    join.server_count = 0;
    none.OnMessage(10 + rank, join, now);
  }
  EXPECT_EQ(driver.finished.size(), 1u);
  EXPECT_TRUE(driver.To<wire::View>(10).empty());
  EXPECT_EQ(driver.To<wire::JobOver>(10).size(), 1u);
}

}  // namespace
}  // namespace byteps::protocol
