// Tests of what a worker does with wants, verdicts and errors of shards, and of when it
// acknowledges them.
#include <gtest/gtest.h>

#include <cstring>

#include "src/protocol/worker/started_worker_for_test.h"

namespace byteps::protocol {
namespace {

class WorkerAnswersTest : public StartedWorker {};

TEST_F(WorkerAnswersTest, WhatNobodyElseMustHaveIsStableAtOnceAndNotKept) {
  for (uint32_t workers : {2, 1}) {
    Start(workers);
    std::string bytes = "\x02\x04";
    ASSERT_TRUE(worker->Submit(InPlace(workers, "w", bytes)).ok());
    Declared("w", 7);
    SentPush push = driver.pushes.back();
    push.header.unstable = 1;
    EXPECT_TRUE(Answer(push, "\x03\x04"));
    EXPECT_EQ(driver.completions[workers], 1);
    EXPECT_EQ(worker->HoldsUnstable(), workers == 2);
    EXPECT_EQ(pool.bytes_in_use() > 0, workers == 2);
  }
}

TEST_F(WorkerAnswersTest, WantsPassTheCredit) {
  Start(2, 1, 1);  // a credit of one piece
  std::string a(64, 'a');
  std::string b(64, 'b');
  ASSERT_TRUE(worker->Submit(InPlace(1, "a", a)).ok());
  ASSERT_TRUE(worker->Submit(InPlace(2, "b", b)).ok());
  Declared("a", 7);
  Declared("b", 8);
  ASSERT_EQ(driver.pushes.size(), 1u);
  worker->OnFrame(0, wire::Want{{{8, 0, wire::RoundOf(1, 0)}}});
  ASSERT_EQ(driver.pushes.size(), 2u);
  EXPECT_EQ(driver.pushes[1].header.ref.tensor, 8u);
}

// The owner may ask before this rank has declared the tensor, has begun it, or has even heard of
// it.
TEST_F(WorkerAnswersTest, EarlyWantsAreKept) {
  Start(2, 1, 1);
  std::string a(64, 'a');
  std::string b(64, 'b');
  worker->OnFrame(0, wire::Want{{{8, 0, wire::RoundOf(1, 0)}}});
  ASSERT_TRUE(worker->Submit(InPlace(1, "a", a)).ok());
  Declared("a", 7);
  ASSERT_TRUE(worker->Submit(InPlace(2, "b", b)).ok());
  Declared("b", 8);
  ASSERT_EQ(driver.pushes.size(), 2u) << "wanted before it was declared";
  worker->OnFrame(0, wire::Want{{{8, 0, wire::RoundOf(2, 0)}}});
  EXPECT_TRUE(Answer(driver.pushes[1], b));
  ASSERT_TRUE(worker->Submit(InPlace(3, "b", b)).ok());
  ASSERT_EQ(driver.pushes.size(), 3u) << "wanted before its round began";
}

TEST_F(WorkerAnswersTest, AnAcknowledgementGoesAloneWhenNoPushCarriesIt) {
  Start();
  std::string bytes(1, 'x');
  ASSERT_TRUE(worker->Submit(InPlace(1, "w", bytes)).ok());
  Declared("w", 7);
  EXPECT_EQ(worker->NextTick(), kStart + milliseconds(500)) << "only a look for what does not end";
  EXPECT_TRUE(Answer(driver.pushes[0], "y"));
  const Duration after = LaneOptions().acknowledge_after;
  ASSERT_EQ(worker->NextTick(), kStart + after);
  worker->OnTick(kStart + after);
  EXPECT_EQ(driver.acks, (std::vector<std::pair<ShardId, uint64_t>>{{0, 1}}));
  EXPECT_FALSE(worker->NextTick().has_value());
}

TEST_F(WorkerAnswersTest, OnlyThePrefixOfAnswersIsAcknowledged) {
  Start();
  std::string bytes(4 * 64, 'x');
  for (uint64_t i = 0; i < 4; ++i) {
    Operation operation = InPlace(i, "w" + std::to_string(i), bytes);
    operation.spec.shape = {64};
    operation.input = operation.output = operation.output + i * 64;
    ASSERT_TRUE(worker->Submit(operation).ok());
    Declared(operation.name, static_cast<TensorId>(10 + i));
  }
  auto acknowledge = [&](size_t push, uint64_t number) {
    answered[0] = number - 1;
    EXPECT_TRUE(Answer(driver.pushes[push], std::string(64, 'y')));
    if (worker->NextTick().has_value()) worker->OnTick(*worker->NextTick());
    return driver.acks.back().second;
  };
  EXPECT_EQ(acknowledge(0, 3), 0u);
  EXPECT_EQ(acknowledge(1, 1), 1u);
  EXPECT_EQ(acknowledge(2, 4), 1u);
  EXPECT_EQ(acknowledge(3, 2), 4u);
}

TEST_F(WorkerAnswersTest, AnErrorVerdictEndsTheOperationWithItsLastPiece) {
  Start(2, 1, 1 << 20, 64);
  std::string bytes(128, 'x');
  ASSERT_TRUE(worker->Submit(InPlace(1, "w", bytes)).ok());
  Declared("w", 7);
  ASSERT_EQ(driver.pushes.size(), 2u);
  EXPECT_TRUE(Answer(driver.pushes[1], "worker 1 has left", StatusCode::kPeerLost));
  EXPECT_TRUE(driver.completions.empty()) << "the other piece still writes to the user's memory";
  EXPECT_TRUE(Answer(driver.pushes[0], std::string(64, 'y')));
  EXPECT_EQ(driver.completions[1], 1);
  EXPECT_EQ(driver.outcomes[1].status, Status(StatusCode::kPeerLost, "worker 1 has left"));
  EXPECT_EQ(worker->bytes_in_flight(), 0u);
}

TEST_F(WorkerAnswersTest, AnErrorWithoutAReasonIsAnError) {
  Start(2, 1, 1 << 20, 64);
  std::string bytes(64, 'x');
  ASSERT_TRUE(worker->Submit(InPlace(1, "w", bytes)).ok());
  Declared("w", 7);
  EXPECT_TRUE(Answer(driver.pushes[0], "", StatusCode::kDeadlineExceeded));
  EXPECT_EQ(driver.outcomes[1].status,
            Status(StatusCode::kDeadlineExceeded, "no reason was given"));
}

TEST_F(WorkerAnswersTest, AnswersThatNobodyAskedForAreRefused) {
  Start(2, 2);
  std::string bytes(64, 'x');
  ASSERT_TRUE(worker->Submit(InPlace(1, "w", bytes)).ok());
  Declared("w", 7);
  SentPush push = driver.pushes[0];
  SentPush wrong = push;
  wrong = push;
  wrong.header.ref.piece = UINT32_MAX;
  EXPECT_FALSE(AnswerHeader(wrong, 64).ok());
  wrong = push;
  wrong.header.ref.round = wire::RoundOf(2, 0);
  EXPECT_FALSE(AnswerHeader(wrong, 64).ok());
  wrong = push;
  wrong.header.generation = 2;
  EXPECT_FALSE(AnswerHeader(wrong, 64).ok());
  wrong = push;
  wrong.header.receipt = 65;
  EXPECT_FALSE(AnswerHeader(wrong, 64).ok()) << "a receipt longer than the payload";
  EXPECT_FALSE(AnswerHeader(push, 63).ok()) << "another size";
  EXPECT_TRUE(Answer(push, std::string(64, 'y')));
  EXPECT_TRUE(AnswerHeader(push, 64).ok());
  EXPECT_EQ(worker->repeated_answers(), 1u) << "twice: read and forgotten";
  EXPECT_EQ(driver.completions[1], 1);
}

// An error verdict is being received when the coordinator retires the tensor.
TEST_F(WorkerAnswersTest, AMismatchBetweenTheHeaderAndTheEndOfAnAnswer) {
  Start();
  std::string bytes(64, 'x');
  ASSERT_TRUE(worker->Submit(InPlace(1, "w", bytes)).ok());
  Declared("w", 7);
  Result<ByteSpan> place = AnswerHeader(driver.pushes[0], 4, StatusCode::kPeerLost);
  ASSERT_TRUE(place.ok());
  worker->OnDeclareFailed({"w", {0, 0, 1}, {7}, StatusCode::kMismatch, "ranks disagree", {}});
  std::memcpy(place.value().data(), "gone", 4);
  worker->OnAnswer(0, kStart);
  EXPECT_EQ(driver.completions[1], 1);
  EXPECT_EQ(driver.outcomes[1].status.code(), StatusCode::kMismatch);
}

TEST_F(WorkerAnswersTest, AnAnswerThatIsComingInWhenItsPieceMovesGoesElsewhere) {
  Start();
  std::string input(64, 'x');
  std::string output(64, ' ');
  Operation operation = InPlace(1, "w", input);
  operation.output = reinterpret_cast<std::byte*>(output.data());
  ASSERT_TRUE(worker->Submit(operation).ok());
  Declared("w", 7);
  ASSERT_TRUE(AnswerHeader(driver.pushes[0], 64).ok());
  view.servers[0].since = ++view.epoch;
  worker->OnView(view, 0);
  EXPECT_EQ(driver.forgotten.back().data(), operation.output);
  worker->OnAnswer(0, kStart);
  EXPECT_EQ(driver.completions[1], 0);
}

}  // namespace
}  // namespace byteps::protocol
