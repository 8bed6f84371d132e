// The ranks disagree about a name while connections break and servers die. Only the round in which
// they disagree fails. An earlier round that has ended for one rank ends for all ranks, and in the
// same way.
#include "tests/protocol/job_for_test.h"

namespace byteps::protocol {
namespace {

class DisagreementTest : public testing::TestWithParam<uint32_t> {
 protected:
  static constexpr Slot kLate = 1;  // it has pushed the first round, and not read the answer

  // All workers have pushed the first round of "a", and all but kLate have its sum.
  DisagreementTest() {
    for (Slot slot = 0; slot < 3; ++slot) {
      first.push_back(job.Submit(slot, "a", static_cast<uint8_t>(slot + 1), kBytes));
    }
    for (Slot slot = 0; slot < 3; ++slot) Up(slot);
    for (Slot slot : {0u, 2u}) Down(slot);
    for (Slot slot : {0u, 2u}) ExpectSum(slot);
  }

  void Up(Slot slot) {
    for (ShardId shard : {0u, 1u}) job.Up(slot, shard);
  }
  void Down(Slot slot) {
    for (ShardId shard : {0u, 1u}) job.Down(slot, shard);
  }
  void ExpectSum(Slot slot) {
    const Outcome* outcome = job.outcome(slot, first[slot]);
    ASSERT_NE(outcome, nullptr) << slot;
    ASSERT_TRUE(outcome->status.ok()) << slot << ": " << outcome->status.message();
    EXPECT_EQ(job.workers[slot]->memory["a"], std::vector<uint8_t>(kBytes, 6)) << slot;
  }
  void ExpectMismatch(Slot slot, OperationId id) {
    const Outcome* outcome = job.outcome(slot, id);
    ASSERT_NE(outcome, nullptr) << slot;
    EXPECT_EQ(outcome->status.code(), StatusCode::kMismatch) << slot;
  }

  // Tell servers and workers that the ranks mean different things in the second round.
  void TellShards() {
    for (ShardId shard = 0; shard < job.shards.size(); ++shard) {
      if (job.view.servers[shard].alive) job.TellFailed(shard, failed);
    }
  }
  void TellWorkers() {
    for (const wire::WorkerInfo& worker : job.view.workers) {
      job.workers[worker.slot]->machine.OnDeclareFailed(failed);
    }
  }
  // Lets the other workers go on to the second round, which fails.
  void Disagree() {
    OperationId second[3] = {};
    for (Slot slot : {0u, 2u}) second[slot] = job.Submit(slot, "a", 7, kBytes);
    TellShards();
    TellWorkers();
    for (Slot slot : {0u, 2u}) ExpectMismatch(slot, second[slot]);
  }

  // Expects that the name can be used again, that all workers may leave, and that nobody keeps
  // anything.
  void ExpectGoodEnd() {
    OperationId next = job.Submit(kLate, "a", 9, kBytes);
    ExpectMismatch(kLate, next);  // its second round
    std::map<Slot, OperationId> third;
    for (const wire::WorkerInfo& worker : job.view.workers) {
      third[worker.slot] = job.Submit(worker.slot, "a", 1, kBytes);
    }
    job.All();
    for (const auto& [slot, id] : third) {
      ASSERT_NE(job.outcome(slot, id), nullptr) << slot;
      EXPECT_TRUE(job.outcome(slot, id)->status.ok()) << job.outcome(slot, id)->status.message();
    }
    for (int i = 0; i < 4; ++i) job.Tick();
    for (const wire::WorkerInfo& worker : job.view.workers) {
      EXPECT_FALSE(job.workers[worker.slot]->machine.HoldsUnstable()) << worker.slot;
      EXPECT_EQ(job.workers[worker.slot]->pool.bytes_in_use(), 0u) << worker.slot;
    }
    for (ShardId shard = 0; shard < job.shards.size(); ++shard) {
      if (!job.view.servers[shard].alive) continue;
      EXPECT_EQ(job.shards[shard]->machine.open_rounds(), 0u) << shard;
      EXPECT_EQ(job.shards[shard]->machine.unstable_verdicts(), 0u) << shard;
      EXPECT_EQ(job.shards[shard]->pool.bytes_in_use(), 0u) << shard;
    }
  }

  static constexpr size_t kBytes = 128;  // a piece for each shard
  Job job{3, 2, ShardMistake::kNone, WorkerMistake::kNone, GetParam()};
  wire::DeclareFailed failed{
      "a", {0, 0, 2}, {TensorId{'a'}}, StatusCode::kMismatch, "ranks disagree", {}};
  std::vector<OperationId> first;
};

TEST_P(DisagreementTest, WhoseConnectionBreaksGetsTheAnswerThatTheOthersHave) {
  Disagree();
  for (ShardId shard : {0u, 1u}) job.Connect(kLate, shard);
  job.All();
  ExpectSum(kLate);
  ExpectGoodEnd();
}

TEST_P(DisagreementTest, AServerIsLostAndItsVerdictIsNot) {
  Disagree();
  job.KillServer(0);
  job.TellAll();
  job.All();
  ExpectSum(kLate);
  ExpectGoodEnd();
}

// The new owner hears first of the round to repeat, and then that the name has failed.
TEST_P(DisagreementTest, AServerIsLostBeforeTheOthersHearOfTheFailure) {
  for (Slot slot : {0u, 2u}) job.Submit(slot, "a", 7, kBytes);
  TellWorkers();
  job.KillServer(0);
  job.TellAll();
  Up(kLate);
  TellShards();
  job.All();
  ExpectSum(kLate);
  ExpectGoodEnd();
}

// The workers that could have told the verdict are gone, too, so the others add up among
// themselves.
TEST_P(DisagreementTest, NobodyWhoHasTheVerdictIsLeft) {
  Disagree();
  for (Slot slot : {0u, 2u}) job.KillWorker(slot);
  job.KillServer(0);
  job.TellAll();
  job.All();
  const Outcome* outcome = job.outcome(kLate, first[kLate]);
  ASSERT_NE(outcome, nullptr);
  EXPECT_TRUE(outcome->status.ok()) << outcome->status.message();
  ExpectGoodEnd();
}

// A worker that does not know that all have the verdict hears it from the owner that the piece then
// has, because the others go on saying so.
TEST_P(DisagreementTest, WhoDoesNotKnowThatAllHaveItHearsThat) {
  Disagree();
  Down(kLate);
  ExpectSum(kLate);
  for (ShardId shard : {0u, 1u}) job.Connect(2, shard);  // the news to worker 2 is lost
  for (Slot slot : {0u, 1u, 2u}) {
    job.workers[slot]->machine.OnTick(kStart + seconds(1));
    Up(slot);
  }
  for (job.ticks = 1; job.ticks < 4; ++job.ticks) {
    for (auto& shard : job.shards) shard->machine.OnTick(kStart + seconds(job.ticks));
    for (Slot slot : {0u, 1u}) Down(slot);
  }
  EXPECT_FALSE(job.workers[0]->machine.HoldsUnstable());
  for (ShardId shard : {0u, 1u}) job.Connect(2, shard);
  EXPECT_TRUE(job.workers[2]->machine.HoldsUnstable());
  job.KillServer(0);
  job.TellAll();
  job.All();
  ExpectGoodEnd();
}

INSTANTIATE_TEST_SUITE_P(Lanes, DisagreementTest, testing::Values(1u, 2u));

}  // namespace
}  // namespace byteps::protocol
