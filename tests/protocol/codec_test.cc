// Tests a codec on its whole way. Workers encode, a shard sums, and verdicts are kept, told and
// adopted as they were encoded; workers decode. All ranks have the same bits.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/protocol/job_for_test.h"

namespace byteps::protocol {
namespace {

class CodecJob {
 public:
  explicit CodecJob(uint32_t lanes) : job(2, 2, ShardMistake::kNone, WorkerMistake::kNone, lanes) {}

  OperationId Submit(Slot slot, float value) {
    memory[slot].assign(64, value);
    Job::WorkerEnd& worker = *job.workers[slot];
    Operation operation;
    operation.id = worker.next++;
    operation.name = "a";
    operation.spec = {wire::Op::kSum, DataType::kFloat32, 0, {64}};
    operation.spec.codec = CodecsForTest::kBfloat16;
    operation.input = operation.output = reinterpret_cast<std::byte*>(memory[slot].data());
    EXPECT_TRUE(worker.machine.Submit(operation).ok());
    job.AnswerDeclares(worker);
    return operation.id;
  }
  void ExpectSum(OperationId id, float sum) {
    for (Slot slot : {0U, 1U}) {
      ASSERT_NE(job.outcome(slot, id), nullptr);
      ASSERT_TRUE(job.outcome(slot, id)->status.ok()) << job.outcome(slot, id)->status.message();
      EXPECT_EQ(memory[slot], std::vector<float>(64, sum));
    }
  }

  Job job;
  std::vector<float> memory[2];
};

class CodecTest : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Lanes, CodecTest, testing::Values(1, 2));

// 1 + 2^-9 has more digits than bfloat16 keeps, so the shard must sum the encoded numbers.
TEST_P(CodecTest, SumsOfEncodedPiecesAreTheSameOnAllRanks) {
  CodecJob codec(GetParam());
  OperationId id = 0;
  for (Slot slot : {0U, 1U}) id = codec.Submit(slot, 1.0F + 1.0F / 512);
  codec.job.All();
  codec.ExpectSum(id, 2.0F);
}

// Worker 0 has the verdict when its owner dies; the next owner adopts its encoded bytes.
TEST_P(CodecTest, AnEncodedVerdictIsToldAndAdopted) {
  for (uint32_t dead : {0U, 1U}) {
    CodecJob codec(GetParam());
    OperationId id = 0;
    for (Slot slot : {0U, 1U}) id = codec.Submit(slot, 1.5F);
    for (Slot slot : {0U, 1U}) codec.job.Up(slot, dead);
    codec.job.Down(0, dead);
    codec.job.KillServer(dead);
    codec.job.TellAll();
    codec.job.All();
    codec.ExpectSum(id, 3.0F);
    EXPECT_GT(codec.job.workers[0]->verdicts, 0);
  }
}

// No worker has an answer, so the workers repeat the contributions as they were encoded.
TEST_P(CodecTest, EncodedContributionsAreRepeated) {
  CodecJob codec(GetParam());
  OperationId id = 0;
  for (Slot slot : {0U, 1U}) id = codec.Submit(slot, 1.5F);
  for (Slot slot : {0U, 1U}) codec.job.Up(slot, 0);
  codec.job.KillServer(0);
  codec.job.TellAll();
  codec.job.All();
  codec.ExpectSum(id, 3.0F);
}

}  // namespace
}  // namespace byteps::protocol
