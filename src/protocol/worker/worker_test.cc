#include <gtest/gtest.h>

#include "src/protocol/worker/started_worker_for_test.h"

namespace byteps::protocol {
namespace {

using wire::Op;

class WorkerTest : public StartedWorker {};

TEST_F(WorkerTest, AnOperationIsDeclaredPushedAnsweredAndCompletedOnce) {
  Start();
  std::string bytes = "\x02\x04";
  ASSERT_TRUE(worker->Submit(InPlace(1, "w", bytes, Op::kAverage)).ok());
  ASSERT_EQ(driver.control.size(), 1u);
  EXPECT_EQ(std::get<wire::Declare>(driver.control[0]).name, "w");
  EXPECT_TRUE(driver.pushes.empty());
  Declared("w", 7);
  ASSERT_EQ(driver.pushes.size(), 1u);
  EXPECT_EQ(driver.pushes[0].header.combine, Combine::kAverage);
  EXPECT_TRUE(Answer(driver.pushes[0], "\x03\x04"));
  EXPECT_EQ(driver.completions[1], 1);
  EXPECT_TRUE(driver.outcomes[1].status.ok());
  EXPECT_EQ(driver.outcomes[1].members, 2u);
  EXPECT_EQ(bytes, "\x03\x04");
  ASSERT_TRUE(worker->Submit(InPlace(2, "w", bytes, Op::kAverage)).ok());
  EXPECT_EQ(driver.control.size(), 1u) << "a name is declared once";
  ASSERT_EQ(driver.pushes.size(), 2u);
  EXPECT_EQ(driver.pushes[1].header.ref.round, wire::RoundOf(2, 0));
  EXPECT_EQ(driver.pushes[1].header.count, 1u) << "a push acknowledges";
}

TEST_F(WorkerTest, WhatThisRankCanSeeAloneIsRefusedAtOnce) {
  Start();
  std::string bytes(4, 'x');
  EXPECT_FALSE(worker->Submit(InPlace(1, "", bytes)).ok());
  Operation bad = InPlace(1, "w", bytes);
  bad.spec.shape = {-1};
  EXPECT_FALSE(worker->Submit(bad).ok());
  bad.spec.shape = {int64_t{1} << 32, int64_t{1} << 32};  // 2^64 elements are not 0
  EXPECT_FALSE(worker->Submit(bad).ok());
  bad = InPlace(1, "w", bytes, Op::kBroadcast);
  bad.spec.root = 2;
  EXPECT_FALSE(worker->Submit(bad).ok());
  bad = Make(1, "w", Op::kAllgather, 4);
  bad.rows = UINT64_MAX / 2;
  EXPECT_FALSE(worker->Submit(bad).ok());
  bad = Make(1, "w", Op::kSum, 4);
  EXPECT_FALSE(worker->Submit(bad).ok()) << "bytes without memory";
  EXPECT_TRUE(worker->Submit(InPlace(1, "w", bytes)).ok());
  EXPECT_EQ(worker->Submit(InPlace(2, "w", bytes)).code(), StatusCode::kDuplicateName);
  EXPECT_EQ(worker->open_operations(), 1u);
}

TEST_F(WorkerTest, EmptyTensorsTakePartInTheirRounds) {
  Start();
  ASSERT_TRUE(worker->Submit(Make(1, "w", Op::kSum, 0)).ok());
  Declared("w", 7);
  ASSERT_EQ(driver.pushes.size(), 1u);
  EXPECT_EQ(driver.pushes[0].header.piece_bytes, 0u);
  EXPECT_TRUE(Answer(driver.pushes[0], ""));
  EXPECT_EQ(driver.completions[1], 1);
}

TEST_F(WorkerTest, AMismatchFailsTheOperationAndTheNameCanBeUsedAgain) {
  Start();
  std::string bytes(64, 'x');
  ASSERT_TRUE(worker->Submit(InPlace(1, "w", bytes)).ok());
  Declared("w", 7);
  worker->OnDeclareFailed({"w", {0, 0, 1}, {7}, StatusCode::kMismatch, "ranks disagree", {}});
  EXPECT_EQ(driver.completions[1], 1);
  EXPECT_EQ(driver.outcomes[1].status.code(), StatusCode::kMismatch);
  ASSERT_EQ(driver.forgotten.size(), 1u);
  EXPECT_EQ(driver.forgotten[0].data(), driver.pushes[0].payload.data());
  EXPECT_EQ(worker->bytes_in_flight(), 0u);
  EXPECT_TRUE(Answer(driver.pushes[0], "late")) << "an answer that was under way is forgotten";
  worker->OnDeclareFailed(
      {"w", {0, 0, 1}, {7}, StatusCode::kMismatch, "again", {}});  // an old attempt
  ASSERT_TRUE(worker->Submit(InPlace(2, "w", bytes)).ok());
  EXPECT_EQ(std::get<wire::Declare>(driver.control.back()).attempt, 1u);
  Declared("w", 6, 0);  // an answer to the first attempt changes nothing
  EXPECT_EQ(driver.pushes.size(), 1u);
  Declared("w", 9, 1);
  ASSERT_EQ(driver.pushes.size(), 2u);
  EXPECT_EQ(driver.pushes[1].header.ref, (wire::PieceRef{9, 0, wire::RoundOf(1, 0)}));
}

// Another rank broke the declaration for round 2; this rank is still in round 1.
TEST_F(WorkerTest, AFailureOfALaterRoundLetsThisOneFinish) {
  Start();
  std::string bytes(64, 'x');
  ASSERT_TRUE(worker->Submit(InPlace(1, "w", bytes)).ok());
  Declared("w", 7);
  worker->OnDeclareFailed({"w", {0, 0, 2}, {7}, StatusCode::kMismatch, "ranks disagree", {}});
  EXPECT_TRUE(driver.completions.empty());
  EXPECT_TRUE(Answer(driver.pushes[0], std::string(64, 'y')));
  EXPECT_TRUE(driver.outcomes[1].status.ok());
  ASSERT_TRUE(worker->Submit(InPlace(2, "w", bytes)).ok());
  EXPECT_EQ(driver.outcomes[2].status.code(), StatusCode::kMismatch);
  ASSERT_TRUE(worker->Submit(InPlace(3, "w", bytes)).ok());
  EXPECT_EQ(std::get<wire::Declare>(driver.control.back()).attempt, 1u);
}

TEST_F(WorkerTest, StopEndsEverythingOnceAndForGood) {
  Start(2, 1, 1);
  std::string bytes(64, 'x');
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(worker->Submit(InPlace(i, "w" + std::to_string(i), bytes)).ok());
  }
  Declared("w1", 7);
  Declared("w2", 8);  // waits for credit; w3 waits for its declaration
  Status why(StatusCode::kPeerLost, "server 0 was lost");
  worker->Stop(why);
  worker->Stop(Status(StatusCode::kShutdown, "later"));
  for (uint64_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(driver.completions[i], 1);
    EXPECT_EQ(driver.outcomes[i].status, why);
  }
  EXPECT_EQ(worker->Submit(InPlace(4, "w4", bytes)), why);
  Declared("w3", 9);  // was under way
  EXPECT_EQ(worker->open_operations(), 0u);
  EXPECT_EQ(driver.pushes.size(), 1u);
}

TEST_F(WorkerTest, AJobOfOneKeepsItsInput) {
  Start(1, 0);
  std::string in = "abc";
  std::string out(3, ' ');
  Operation operation = InPlace(1, "w", in, Op::kAverage);
  operation.output = reinterpret_cast<std::byte*>(out.data());
  ASSERT_TRUE(worker->Submit(operation).ok());
  EXPECT_EQ(driver.completions[1], 1);
  EXPECT_EQ(out, "abc");
}

}  // namespace
}  // namespace byteps::protocol
