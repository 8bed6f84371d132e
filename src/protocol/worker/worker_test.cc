#include "src/protocol/worker/worker.h"

#include <gtest/gtest.h>

#include <cstring>

#include "src/base/allocation_count_for_test.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/worker/worker_for_test.h"

namespace byteps::protocol {
namespace {

using wire::Op;

class WorkerTest : public testing::Test {
 protected:
  Worker& Start(uint32_t workers = 2, uint32_t shards = 1, uint64_t credit = 1 << 20,
                uint32_t piece_bytes_max = 4096, Slot slot = 0) {
    WorkerOptions options;
    options.credit.fixed_bytes = credit;
    worker.emplace(options, pool, *arithmetic, driver);
    view = ViewFor(workers, shards, piece_bytes_max);
    worker->OnView(view, slot);
    for (ShardId shard = 0; shard < shards; ++shard) worker->OnShardUp(shard);
    answered.assign(shards, 0);
    return *worker;
  }

  static Operation Make(OperationId id, const std::string& name, Op op, int64_t elements) {
    Operation operation;
    operation.id = id;
    operation.name = name;
    operation.spec = {op, DataType::kUint8, 0, {elements}};
    return operation;
  }

  Operation InPlace(OperationId id, const std::string& name, std::string& bytes, Op op = Op::kSum) {
    Operation operation = Make(id, name, op, static_cast<int64_t>(bytes.size()));
    operation.input = operation.output = reinterpret_cast<std::byte*>(bytes.data());
    return operation;
  }

  void Declared(const std::string& name, TensorId tensor, uint32_t attempt = 0) {
    std::vector<uint64_t> placement(answered.size(), 0);
    placement.push_back(answered.size());
    worker->OnDeclared({name, 0, attempt, tensor, placement});
  }

  // Answers a push of this test's worker. False when the worker refuses.
  bool Answer(const SentPush& push, const std::string& bytes, StatusCode status = StatusCode::kOk) {
    std::vector<std::byte> row = ErrorBytes(push, {status, bytes});
    ConstByteSpan source = row.empty() ? std::as_bytes(std::span(bytes)) : row;
    Result<ByteSpan> place = AnswerHeader(push, source.size(), status);
    if (!place.ok()) return false;
    std::copy(source.begin(), source.end(), place.value().begin());
    worker->OnAnswer(push.to, kStart);
    return true;
  }

  Result<ByteSpan> AnswerHeader(const SentPush& push, size_t bytes,
                                StatusCode status = StatusCode::kOk) {
    wire::DataHeader header = push.header;
    header.count = ++answered[push.to];
    header.status = status;
    header.offset = header.want_offset;
    if (status != StatusCode::kOk) {
      header.offset = header.want_offset = 0;
      header.piece_bytes = header.want_bytes = static_cast<uint32_t>(bytes);
    }
    return worker->OnAnswerHeader(push.to, header, bytes);
  }

  KernelArithmetic kernels;
  NoArithmetic nothing;
  Arithmetic* arithmetic = &kernels;
  BufferPool pool;
  RecordingWorkerDriver driver;
  std::optional<Worker> worker;
  wire::View view;
  std::vector<uint64_t> answered;
};

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

TEST_F(WorkerTest, WhatNobodyElseMustHaveIsStableAtOnceAndNotKept) {
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

TEST_F(WorkerTest, WantsPassTheCredit) {
  Start(2, 1, 1);  // a credit of one piece
  std::string a(64, 'a');
  std::string b(64, 'b');
  ASSERT_TRUE(worker->Submit(InPlace(1, "a", a)).ok());
  ASSERT_TRUE(worker->Submit(InPlace(2, "b", b)).ok());
  Declared("a", 7);
  Declared("b", 8);
  ASSERT_EQ(driver.pushes.size(), 1u);
  worker->OnWant(0, {{8, 0, wire::RoundOf(1, 0)}});
  ASSERT_EQ(driver.pushes.size(), 2u);
  EXPECT_EQ(driver.pushes[1].header.ref.tensor, 8u);
}

// The owner may ask before this rank has declared, begun, or even heard of the tensor.
TEST_F(WorkerTest, EarlyWantsAreKept) {
  Start(2, 1, 1);
  std::string a(64, 'a');
  std::string b(64, 'b');
  worker->OnWant(0, {{8, 0, wire::RoundOf(1, 0)}});
  ASSERT_TRUE(worker->Submit(InPlace(1, "a", a)).ok());
  Declared("a", 7);
  ASSERT_TRUE(worker->Submit(InPlace(2, "b", b)).ok());
  Declared("b", 8);
  ASSERT_EQ(driver.pushes.size(), 2u) << "wanted before it was declared";
  worker->OnWant(0, {{8, 0, wire::RoundOf(2, 0)}});
  EXPECT_TRUE(Answer(driver.pushes[1], b));
  ASSERT_TRUE(worker->Submit(InPlace(3, "b", b)).ok());
  ASSERT_EQ(driver.pushes.size(), 3u) << "wanted before its round began";
}

TEST_F(WorkerTest, AnAcknowledgementGoesAloneWhenNoPushCarriesIt) {
  Start();
  std::string bytes(1, 'x');
  ASSERT_TRUE(worker->Submit(InPlace(1, "w", bytes)).ok());
  Declared("w", 7);
  EXPECT_EQ(worker->NextTick(), kStart + milliseconds(500)) << "only a look for what does not end";
  EXPECT_TRUE(Answer(driver.pushes[0], "y"));
  ASSERT_EQ(worker->NextTick(), kStart + milliseconds(2));
  worker->OnTick(kStart + milliseconds(2));
  EXPECT_EQ(driver.acks, (std::vector<std::pair<ShardId, uint64_t>>{{0, 1}}));
  EXPECT_FALSE(worker->NextTick().has_value());
}

TEST_F(WorkerTest, OnlyThePrefixOfAnswersIsAcknowledged) {
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

TEST_F(WorkerTest, AnErrorVerdictEndsTheOperationWithItsLastPiece) {
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

TEST_F(WorkerTest, AnErrorWithoutAReasonIsAnError) {
  Start(2, 1, 1 << 20, 64);
  std::string bytes(64, 'x');
  ASSERT_TRUE(worker->Submit(InPlace(1, "w", bytes)).ok());
  Declared("w", 7);
  EXPECT_TRUE(Answer(driver.pushes[0], "", StatusCode::kDeadlineExceeded));
  EXPECT_EQ(driver.outcomes[1].status,
            Status(StatusCode::kDeadlineExceeded, "no reason was given"));
}

TEST_F(WorkerTest, AnswersThatNobodyAskedForAreRefused) {
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

// An error verdict is being received when the coordinator retires the tensor.
TEST_F(WorkerTest, AMismatchBetweenTheHeaderAndTheEndOfAnAnswer) {
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

TEST_F(WorkerTest, AnAnswerThatIsComingInWhenItsPieceMovesGoesElsewhere) {
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

// Another rank broke the declaration for round 2; this rank is still in round 1.
TEST_F(WorkerTest, ADoomedDeclarationLetsEarlierRoundsFinish) {
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
  Declared("w2", 8);  // waits for credit; w3 for its declaration
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

class AllgatherTest : public WorkerTest {
 protected:
  // Rows of 64 bytes; the answer to the table of rows is `rows`.
  void Gather(OperationId id, std::string& mine, const std::vector<uint64_t>& rows) {
    Operation operation = Make(id, "g", Op::kAllgather, 64);
    operation.rows = mine.size() / 64;
    operation.input = reinterpret_cast<std::byte*>(mine.data());
    size_t before = driver.pushes.size();
    ASSERT_TRUE(worker->Submit(operation).ok());
    if (id == 1) Declared("g", 7);
    ASSERT_EQ(driver.pushes.size(), before + 1) << "the table is one piece";
    const SentPush table = driver.pushes.back();
    EXPECT_EQ(table.header.piece_bytes, rows.size() * 8);
    std::string bytes(rows.size() * 8, '\0');
    std::memcpy(bytes.data(), rows.data(), bytes.size());
    EXPECT_TRUE(Answer(table, bytes));
  }
};

TEST_F(AllgatherTest, NineRanksHaveOneTable) {
  Start(9);
  std::string mine(64, 'm');
  Gather(1, mine, std::vector<uint64_t>(9, 1));
  ASSERT_EQ(driver.pushes.size(), 2u);
  EXPECT_EQ(driver.pushes[1].header.ref.piece, 1u);
  EXPECT_TRUE(Answer(driver.pushes[1], std::string(64, 'm') + std::string(8 * 64, 'o')));
  EXPECT_EQ(driver.completions[1], 1);
  EXPECT_EQ(driver.outcomes[1].rows, 9u);
  EXPECT_EQ(driver.outcomes[1].gathered_bytes, 9u * 64);
}

TEST_F(AllgatherTest, RoundsMayDifferInLength) {
  Start(2, 1, 1 << 20, 64);
  for (uint64_t theirs : {4, 0, 5}) {
    OperationId id = theirs == 4 ? 1 : theirs + 2;
    std::string mine(64, 'm');
    size_t before = driver.pushes.size();
    Gather(id, mine, {1, theirs});
    size_t end = driver.pushes.size();
    EXPECT_EQ(end - before, 2 + theirs);
    for (size_t i = before + 1; i < end; ++i) {
      const SentPush push = driver.pushes[i];
      EXPECT_TRUE(Answer(push, std::string(push.header.want_bytes, 'o')));
    }
    EXPECT_EQ(driver.completions[id], 1);
    EXPECT_EQ(driver.outcomes[id].rows, 1 + theirs);
  }
}

TEST_F(AllgatherTest, HugeNumbersOfRowsAreAnErrorOnEveryRank) {
  for (uint64_t theirs : {UINT64_MAX, UINT64_MAX - 1, uint64_t{1} << 45}) {
    driver = RecordingWorkerDriver();
    Start(3);
    std::string mine(64, 'm');
    Gather(1, mine, {1, theirs, theirs});
    EXPECT_EQ(driver.outcomes[1].status.code(), StatusCode::kExhausted);
    EXPECT_EQ(driver.completions[1], 1);
    EXPECT_EQ(driver.control.size(), 1u) << "all ranks see it: nobody needs to be told";
  }
}

// What only this rank can see ends the job, or the others would wait for ever.
TEST_F(AllgatherTest, AWrongTableIsReported) {
  Start();
  std::string mine(128, 'm');
  Gather(1, mine, {1, 1});
  EXPECT_EQ(driver.outcomes[1].status.code(), StatusCode::kProtocol);
  ASSERT_EQ(driver.control.size(), 2u);
  EXPECT_EQ(std::get<wire::Suspect>(driver.control[1]).role, Role::kWorker);
}

// 5 GiB that exist as an address only.
TEST_F(WorkerTest, TensorsAboveFourGibibytes) {
  arithmetic = &nothing;
  constexpr uint64_t kBytes = (uint64_t{5} << 30) + 8;
  Start(2, 3, 1 << 20, 1 << 20);
  auto* fake = reinterpret_cast<std::byte*>(uintptr_t{1} << 40);
  Operation operation = Make(1, "w", Op::kSum, static_cast<int64_t>(kBytes));
  operation.input = fake;
  operation.output = fake + (uint64_t{1} << 36);
  ASSERT_TRUE(worker->Submit(operation).ok());
  Declared("w", 7);
  uint64_t bytes = 0;
  const std::byte* expected = fake;
  for (size_t i = 0; i < driver.pushes.size(); ++i) {
    const SentPush push = driver.pushes[i];
    EXPECT_EQ(push.payload.data(), expected);
    Result<ByteSpan> place = AnswerHeader(push, push.payload.size());
    ASSERT_TRUE(place.ok());
    expected += push.payload.size();
    bytes += push.payload.size();
    worker->OnAnswer(push.to, kStart);
  }
  EXPECT_EQ(bytes, kBytes);
  EXPECT_EQ(driver.completions[1], 1);
  EXPECT_EQ(worker->bytes_in_flight(), 0u);
}

// Whatever an operation costs, more pieces cost no more.
TEST_F(WorkerTest, SteadyStateAllocatesNothingPerPiece) {
  arithmetic = &nothing;
  auto allocations = [&](int64_t pieces) {
    driver = RecordingWorkerDriver();
    driver.pushes.reserve(1 << 16);
    Start(2, 4, 1 << 20, 4096);
    std::string bytes(static_cast<size_t>(pieces) * 4096, 'x');
    uint64_t before = 0;
    for (uint64_t round = 1; round <= 120; ++round) {
      if (round == 21) before = AllocationCount();
      driver.pushes.clear();
      driver.completions.clear();
      driver.outcomes.clear();
      EXPECT_TRUE(worker->Submit(InPlace(1, "w", bytes)).ok());
      if (round == 1) Declared("w", 7);
      for (size_t i = 0; i < driver.pushes.size(); ++i) {
        const SentPush push = driver.pushes[i];
        EXPECT_TRUE(AnswerHeader(push, 4096).ok());
        worker->OnAnswer(push.to, kStart);
      }
      EXPECT_EQ(driver.completions[1], 1);
      EXPECT_EQ(driver.pushes.size(), static_cast<size_t>(pieces));
    }
    return AllocationCount() - before;
  };
  EXPECT_EQ(allocations(64), allocations(1));
}

}  // namespace
}  // namespace byteps::protocol
