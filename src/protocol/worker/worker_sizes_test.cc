// Tests of a worker and sizes: sizes that ranks tell each other first, sizes that memory cannot
// hold, and the cost of more pieces.
#include <gtest/gtest.h>

#include <cstring>

#include "src/base/allocation_count_for_test.h"
#include "src/protocol/worker/started_worker_for_test.h"

namespace byteps::protocol {
namespace {

using wire::Op;

class WorkerSizesTest : public StartedWorker {};

class AllgatherTest : public StartedWorker {
 protected:
  // Gathers rows of 64 bytes. The answer to the table of rows is `rows`.
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
  for (uint64_t theirs : {UINT64_MAX - 1, uint64_t{1} << 45}) {
    driver = RecordingWorkerDriver();
    Start(3);
    std::string mine(64, 'm');
    Gather(1, mine, {1, theirs, theirs});
    EXPECT_EQ(driver.outcomes[1].status.code(), StatusCode::kExhausted);
    EXPECT_EQ(driver.completions[1], 1);
    EXPECT_EQ(driver.control.size(), 1u) << "all ranks see it: nobody needs to be told";
  }
}

// An error that only this rank can see ends the job, because the others would wait for ever.
TEST_F(AllgatherTest, AWrongTableIsReported) {
  Start();
  std::string mine(128, 'm');
  Gather(1, mine, {1, 1});
  EXPECT_EQ(driver.outcomes[1].status.code(), StatusCode::kProtocol);
  ASSERT_EQ(driver.control.size(), 2u);
  EXPECT_EQ(std::get<wire::Suspect>(driver.control[1]).role, Role::kWorker);
}

// The 5 GiB exist as an address only.
TEST_F(WorkerSizesTest, TensorsAboveFourGibibytes) {
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

// More pieces add no allocation to the cost of an operation.
TEST_F(WorkerSizesTest, SteadyStateAllocatesNothingPerPiece) {
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
