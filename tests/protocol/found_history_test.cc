// Histories that the simulator found, written by hand, because its seeds change with its recipes.
#include "tests/protocol/job_for_test.h"

namespace byteps::protocol {
namespace {

// Simulated seeds 6335, 101187 and 101349: the others left worker 2 behind, and it went on alone.
// Its push came first: it belonged to a later round, or to an earlier one that the members gave up,
// or had other rows of an allgather. It must not close the members' round to them.
TEST(FoundHistoryTest, WhoWasLeftBehindClosesNoRoundToTheMembers) {
  struct Push {
    uint64_t round;
    uint32_t bytes;
  };
  for (Push push : {Push{uint64_t{2} << 8, 4}, Push{1, 4}, Push{uint64_t{1} << 8, 8}}) {
    Job job(3, 1);
    OperationId id = 0;
    for (Slot slot : {0u, 1u}) id = job.Submit(slot, "a", static_cast<uint8_t>(slot + 1));
    wire::DataHeader alone;
    alone.ref = {static_cast<TensorId>('a'), 0, push.round};
    alone.epoch = alone.generation = 1;
    alone.combine = Combine::kSum;
    alone.dtype = DataType::kUint8;
    alone.piece_bytes = alone.want_bytes = push.bytes;
    Shard& shard = job.shards[0]->machine;
    ASSERT_TRUE(shard.OnDataHeader(2, wire::FrameKind::kPush, alone, push.bytes, kStart).ok());
    shard.OnPayload(2);
    ASSERT_EQ(shard.open_rounds(), 1u);
    job.KillWorker(2);
    job.TellAll();
    job.All();
    for (Slot slot : {0u, 1u}) {
      ASSERT_NE(job.outcome(slot, id), nullptr) << push.round << " " << push.bytes;
      EXPECT_EQ(job.value(slot, "a"), 3);
      EXPECT_EQ(job.outcome(slot, id)->receipt->List(), (std::vector<Slot>{0, 1}));
    }
  }
}

// Simulated seed 19595: both pieces are pushed again, and another loss makes both receipts smaller
// than their common part, and equal. There is nothing left to wait for.
TEST(FoundHistoryTest, AnAtomicAttemptWhoseReceiptsShrankToOneIsOver) {
  Job job(5, 2);
  OperationId id = 0;
  for (Slot slot = 0; slot < 5; ++slot) {
    id = job.Submit(slot, "a", static_cast<uint8_t>(slot + 1), 128, wire::Op::kSum, true);
  }
  job.Up(2, 0);  // the first piece of worker 2, the second of worker 3
  job.Up(3, 1);
  job.KillWorker(2);
  job.KillWorker(3);
  job.TellAll();
  for (ShardId shard : {0u, 1u}) {
    for (Slot slot : {0u, 1u, 4u}) job.Up(slot, shard);
    for (Slot slot : {0u, 1u, 4u}) job.Down(slot, shard);
  }
  ASSERT_EQ(job.outcome(0, id), nullptr) << "the receipts differ: 0 1 2 4 and 0 1 3 4";
  job.up[{4, 0}].clear();
  job.up[{4, 1}].clear();
  job.KillWorker(4);
  job.TellAll();
  job.All();
  for (Slot slot : {0u, 1u}) {
    ASSERT_NE(job.outcome(slot, id), nullptr);
    EXPECT_EQ(job.workers[slot]->memory["a"], std::vector<uint8_t>(128, 3));
    EXPECT_FALSE(job.outcome(slot, id)->mixed);
    EXPECT_EQ(job.outcome(slot, id)->receipt->List(), (std::vector<Slot>{0, 1}));
  }
}

// Simulated seed 120402: worker 1 waits for the first of two errors in a row when the owner dies.
// The new owner has its push before it hears of the second error, which worker 0 knows.
TEST(FoundHistoryTest, WhoPushedAnEarlierOneOfErrorsInARowIsAnswered) {
  Job job(3, 2);
  OperationId waits = job.Submit(1, "a", 2);
  job.Up(1, 0);
  for (int round = 0; round < 2; ++round) {
    OperationId id = job.Submit(0, "a", 1);
    job.Up(0, 0);
    job.workers[0]->machine.Abort(id, "late");
    job.Up(0, 0);
    job.Down(0, 0);
    ASSERT_NE(job.outcome(0, id), nullptr) << "round " << round;
  }
  job.KillServer(0);
  job.TellAll();
  job.Up(1, 1);
  job.All();
  ASSERT_NE(job.outcome(1, waits), nullptr);
  EXPECT_EQ(job.outcome(1, waits)->status.code(), StatusCode::kDeadlineExceeded);
}

// Simulated seed 500067: worker 1's answer is lost, with its connection or with the owner, and
// meanwhile the next round has ended in another error. Each round keeps its own error.
TEST(FoundHistoryTest, OfErrorsInARowEveryRoundKeepsItsOwn) {
  enum class Lost { kConnection, kOwnerPushFirst, kOwnerVerdictFirst };
  for (Lost lost : {Lost::kConnection, Lost::kOwnerPushFirst, Lost::kOwnerVerdictFirst}) {
    Job job(3, 2);
    OperationId waits = job.Submit(1, "a", 2);
    job.Up(1, 0);
    std::vector<OperationId> ids;
    for (const char* why : {"first", "second"}) {
      ids.push_back(job.Submit(0, "a", 1));
      job.Up(0, 0);
      job.workers[0]->machine.Abort(ids.back(), why);
      job.Up(0, 0);
      job.Down(0, 0);
      ASSERT_NE(job.outcome(0, ids.back()), nullptr) << why;
    }
    if (lost == Lost::kConnection) {
      job.Connect(1, 0);
    } else {
      job.KillServer(0);
      job.TellAll();
      job.Up(lost == Lost::kOwnerPushFirst ? 1 : 0, 1);
    }
    job.All();
    ASSERT_NE(job.outcome(1, waits), nullptr);
    EXPECT_EQ(job.outcome(1, waits)->status.message(), job.outcome(0, ids[0])->status.message());
    OperationId next = job.Submit(1, "a", 2);
    job.All();
    ASSERT_NE(job.outcome(1, next), nullptr);
    EXPECT_EQ(job.outcome(1, next)->status.message(), job.outcome(0, ids[1])->status.message());
  }
}

// Simulated seed 116105: two pieces of one operation end with an error each, for different reasons.
// The two workers hear of the errors in opposite order.
TEST(FoundHistoryTest, OfTwoErrorsAllRanksSayTheSameOne) {
  Job job(3, 2);
  OperationId id = 0;
  for (Slot slot : {0u, 1u}) {
    id = job.Submit(slot, "a", 1, 128);
    for (ShardId shard : {0u, 1u}) job.Up(slot, shard);
  }
  job.workers[0]->machine.Abort(id, "worker 0 gives up");
  job.workers[1]->machine.Abort(id, "worker 1 gives up");
  for (Slot slot : {0u, 1u}) job.Up(slot, slot);  // each owner hears of one
  for (Slot slot : {0u, 1u}) {
    job.Down(slot, 1 - slot);
    job.Down(slot, slot);
  }
  ASSERT_NE(job.outcome(0, id), nullptr);
  ASSERT_NE(job.outcome(1, id), nullptr);
  EXPECT_EQ(job.outcome(0, id)->status.message(), job.outcome(1, id)->status.message());
}

// Simulated seed 139612: worker 2 has skipped the view with which the generation began, and worker
// 1 is lost when worker 2 hears of the generation. The process set of worker 2 must still have
// three places, because the others lay out an allgather for three.
TEST(FoundHistoryTest, WhoHearsLateOfAGenerationCountsRanksLikeTheOthers) {
  Job job(3, 1);
  for (Slot slot : {0u, 1u, 2u}) job.workers[slot]->machine.OnShardDown(0);
  job.view.epoch = job.view.began = 2;
  ++job.view.generation;
  auto tell = [&](Slot slot) {
    job.workers[slot]->machine.OnView(job.view, slot);
    job.Connect(slot, 0);
  };
  job.TellShard(0);
  tell(0);
  tell(1);
  std::vector<OperationId> ids(3);
  auto gather = [&](Slot slot) {
    Job::WorkerEnd& worker = *job.workers[slot];
    worker.memory["a"].assign(4, static_cast<uint8_t>(slot));
    Operation operation;
    ids[slot] = operation.id = worker.next++;
    operation.name = "a";
    operation.spec = {wire::Op::kAllgather, DataType::kUint8, 0, {4}};
    operation.rows = slot == 1 ? 0 : 1;
    operation.input = reinterpret_cast<std::byte*>(worker.memory["a"].data());
    ASSERT_TRUE(worker.machine.Submit(operation).ok());
    for (const wire::Declare& asked : std::exchange(worker.declares, {})) {
      worker.machine.OnDeclared({asked.name,
                                 asked.spec.process_set,
                                 asked.attempt,
                                 static_cast<TensorId>(asked.name[0]),
                                 {0, 1}});
    }
  };
  gather(0);
  gather(1);
  job.All();
  job.KillWorker(1);
  job.TellShard(0);
  job.TellWorker(0);
  tell(2);
  gather(2);
  job.All();
  for (Slot slot : {0u, 2u}) {
    const Outcome* outcome = job.outcome(slot, ids[slot]);
    ASSERT_NE(outcome, nullptr) << slot;
    ASSERT_TRUE(outcome->status.ok()) << outcome->status.message();
    ASSERT_EQ(outcome->gathered_bytes, 8u);
    EXPECT_EQ(outcome->gathered[0], std::byte{0});
    EXPECT_EQ(outcome->gathered[4], std::byte{2});
  }
}

// Simulated seed 3007091: worker 1 asks for an error, and its request overtakes its push. All ranks
// get the error. Worker 1 joins (or pushes the next round with more urgency), and the next sum is
// decided. Only now the old push leaves. The shard must not close the connection for that.
TEST(FoundHistoryTest, APushMayLeaveWhenItsRoundIsLongOver) {
  for (bool joins : {true, false}) {
    Job job(2, 1);
    OperationId id = job.Submit(0, "a", 1);
    job.All();
    ASSERT_EQ(job.Submit(1, "a", 2), id);
    Job::Queue& up = job.up[{1, 0}];
    ASSERT_EQ(up.size(), 1u);
    std::function<void()> late = std::move(up.front());
    up.pop_front();
    job.workers[1]->machine.Abort(id, "late");
    job.All();
    for (Slot slot : {0u, 1u}) {
      ASSERT_NE(job.outcome(slot, id), nullptr);
      EXPECT_EQ(job.outcome(slot, id)->status.code(), StatusCode::kDeadlineExceeded);
    }
    job.Tick();
    OperationId next = job.Submit(0, "a", 3);
    if (joins) {
      job.Join(1);
    } else {
      job.Submit(1, "a", 4);
    }
    job.All();
    ASSERT_NE(job.outcome(0, next), nullptr);
    EXPECT_EQ(job.value(0, "a"), joins ? 3 : 7);
    ASSERT_GE(job.shards[0]->machine.unstable_verdicts(), 1u);
    late();
    job.All();
    job.Tick();
    EXPECT_EQ(job.shards[0]->machine.unstable_verdicts(), 0u);
    if (!joins) continue;
    OperationId end = job.Join(0);
    job.All();
    ASSERT_NE(job.outcome(0, end), nullptr);
    EXPECT_TRUE(job.outcome(0, end)->status.ok());
  }
}

}  // namespace
}  // namespace byteps::protocol
