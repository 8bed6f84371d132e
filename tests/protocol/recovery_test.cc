// Tests workers and shards together: owner changes, reconnects, lost members, errors, receipts. The
// simulator plays thousands of such histories; this file has those that docs/membership.md draws.
#include "tests/protocol/job_for_test.h"

namespace byteps::protocol {
namespace {

// History A: the shard has the whole contribution of the lost worker, so the shard counts it.
TEST(RecoveryTest, ALostWorkersWholeContributionCounts) {
  Job job(3, 1);
  OperationId id = 0;
  for (Slot slot : {0u, 1u, 2u}) id = job.Submit(slot, "a", static_cast<uint8_t>(slot + 1));
  job.Up(2, 0);  // worker 2's push is here, then it dies
  job.KillWorker(2);
  job.TellAll();
  job.All();
  for (Slot slot : {0u, 1u}) {
    ASSERT_NE(job.outcome(slot, id), nullptr);
    EXPECT_EQ(job.value(slot, "a"), 6);
    EXPECT_EQ(job.outcome(slot, id)->receipt->List(), (std::vector<Slot>{0, 1, 2}));
  }
}

TEST(RecoveryTest, WithoutItTheSumIsThatOfTheOthersAndTheAverageIsTheirs) {
  Job job(3, 1);
  OperationId sum = 0;
  OperationId average = 0;
  for (Slot slot : {0u, 1u, 2u}) {
    sum = job.Submit(slot, "a", static_cast<uint8_t>(slot + 1));
    average = job.Submit(slot, "b", static_cast<uint8_t>(10 * slot + 10), 4, wire::Op::kAverage);
  }
  job.KillWorker(2);
  job.TellAll();
  job.All();
  for (Slot slot : {0u, 1u}) {
    EXPECT_EQ(job.value(slot, "a"), 3);
    EXPECT_EQ(job.value(slot, "b"), 15);
    EXPECT_EQ(job.outcome(slot, sum)->members, 2u);
    EXPECT_EQ(job.outcome(slot, average)->receipt->List(), (std::vector<Slot>{0, 1}));
  }
}

// History B: one worker has the verdict, one waits, one is a round ahead.
TEST(RecoveryTest, ALostServersVerdictIsToldByWhoHasIt) {
  Job job(3, 2);
  for (Slot slot : {0u, 1u, 2u}) job.Submit(slot, "a", static_cast<uint8_t>(slot + 1));
  for (Slot slot : {0u, 1u, 2u}) job.Up(slot, 0);
  job.Down(0, 0);                               // worker 0 has round 1
  job.Down(2, 0);                               // worker 2 has it
  OperationId second = job.Submit(2, "a", 30);  // and goes on; worker 1 still waits
  job.KillServer(0);
  job.TellAll();
  job.All();
  EXPECT_EQ(job.value(1, "a"), 6) << "the same sum, though the server that made it is gone";
  EXPECT_GE(job.workers[0]->verdicts + job.workers[2]->verdicts, 2);
  job.Submit(0, "a", 10);
  job.Submit(1, "a", 20);
  job.All();
  for (Slot slot : {0u, 1u, 2u}) {
    EXPECT_EQ(job.value(slot, "a"), 60);
    EXPECT_TRUE(job.outcome(slot, second)->status.ok());
  }
}

TEST(RecoveryTest, NobodyHasTheVerdictSoItIsMadeAgain) {
  Job job(2, 2);
  for (Slot slot : {0u, 1u}) job.Submit(slot, "a", static_cast<uint8_t>(slot + 1));
  for (Slot slot : {0u, 1u}) job.Up(slot, 0);
  job.KillServer(0);
  job.TellAll();
  job.All();
  for (Slot slot : {0u, 1u}) EXPECT_EQ(job.value(slot, "a"), 3);
}

// The users overwrite their memory at once, so only the engine can still know the sum.
TEST(RecoveryTest, WhatTheUserOverwritesIsKept) {
  for (bool keep : {true, false}) {
    Job job(2, 2, ShardMistake::kNone,
            keep ? WorkerMistake::kNone : WorkerMistake::kHandOverWithoutKeeping);
    OperationId id = 0;
    for (Slot slot : {0u, 1u}) id = job.Submit(slot, "a", static_cast<uint8_t>(slot + 1), 4);
    for (Slot slot : {0u, 1u}) job.Up(slot, 0);
    job.Down(0, 0);
    ASSERT_NE(job.outcome(0, id), nullptr);
    job.workers[0]->memory["a"].assign(4, 99);
    job.KillServer(0);
    job.TellAll();
    job.All();
    EXPECT_EQ(job.outcome(1, id) != nullptr, keep) << "without it worker 1 waits for ever";
    if (keep) {
      EXPECT_EQ(job.value(1, "a"), 3);
    }
  }
}

// History F: both live, the connection breaks with the answer on it.
TEST(RecoveryTest, AReconnectRepeatsWhatWasOnTheWay) {
  Job job(2, 1);
  OperationId id = 0;
  for (Slot slot : {0u, 1u}) id = job.Submit(slot, "a", static_cast<uint8_t>(slot + 1));
  for (Slot slot : {0u, 1u}) job.Up(slot, 0);
  job.Down(0, 0);
  job.Connect(1, 0);  // the answer to worker 1 is gone
  job.Connect(0, 0);
  job.All();
  ASSERT_NE(job.outcome(1, id), nullptr);
  EXPECT_EQ(job.value(1, "a"), 3);
  EXPECT_EQ(job.shards[0]->machine.open_rounds(), 0u);
}

// A piece moves away and back while an old push is still on its way (repair 2).
TEST(RecoveryTest, AMessageOfAnEarlierStayDoesNotCount) {
  Job job(2, 2);
  for (Slot slot : {0u, 1u}) job.Submit(slot, "a", static_cast<uint8_t>(slot + 1));
  Job::Queue old = std::exchange(job.up[{0, 0}], {});  // worker 0's push stays in the pipe
  job.Up(1, 0);
  job.KillServer(0);
  job.TellAll();
  job.All();
  for (Slot slot : {0u, 1u}) EXPECT_EQ(job.value(slot, "a"), 3);
  job.ReviveServer(0);
  job.TellAll();
  job.All();
  Job::Drain(old);
  job.All();
  EXPECT_EQ(job.shards[0]->machine.open_rounds(), 0u) << "the old push opened nothing";
}

// Rule 1: a push of a view that the shard does not know yet waits for it.
TEST(RecoveryTest, AMessageOfANewerViewWaits) {
  Job job(2, 2);
  for (Slot slot : {0u, 1u}) job.Submit(slot, "a", static_cast<uint8_t>(slot + 1));
  job.KillServer(0);
  for (Slot slot : {0u, 1u}) job.TellWorker(slot);
  for (Slot slot : {0u, 1u}) job.Up(slot, 1);  // server 1 is still in the first view
  EXPECT_EQ(job.shards[1]->machine.open_rounds(), 0u);
  job.TellShard(1);
  job.All();
  for (Slot slot : {0u, 1u}) EXPECT_EQ(job.value(slot, "a"), 3);
}

// An answer of a view that the worker does not know yet waits, too.
TEST(RecoveryTest, AnAnswerOfANewerViewWaits) {
  Job job(3, 1);
  OperationId id = 0;
  for (Slot slot : {0u, 1u, 2u}) id = job.Submit(slot, "a", static_cast<uint8_t>(slot + 1));
  job.Up(0, 0);
  job.Up(1, 0);
  job.KillWorker(2);
  job.TellShard(0);
  job.Down(0, 0);
  EXPECT_EQ(job.outcome(0, id), nullptr) << "who is in it is told by a view to come";
  job.TellWorker(0);
  job.TellWorker(1);
  job.All();
  for (Slot slot : {0u, 1u}) EXPECT_EQ(job.value(slot, "a"), 3);
}

// History K: an error is a verdict; a sum that somebody holds wins over it.
TEST(RecoveryTest, AnErrorIsDecidedOnlyWhenNobodyCanHoldASum) {
  Job job(2, 2);
  OperationId id = 0;
  for (Slot slot : {0u, 1u}) id = job.Submit(slot, "a", static_cast<uint8_t>(slot + 1));
  for (Slot slot : {0u, 1u}) job.Up(slot, 0);
  job.Down(0, 0);  // worker 0 holds the sum
  job.KillServer(0);
  job.TellShard(1);
  job.TellWorker(1);
  job.workers[1]->machine.Abort(id, "too late");
  job.Up(1, 1);
  job.Down(1, 1);
  EXPECT_EQ(job.outcome(1, id), nullptr) << "worker 0 has not said what it holds";
  job.TellWorker(0);
  job.All();
  ASSERT_NE(job.outcome(1, id), nullptr);
  EXPECT_TRUE(job.outcome(1, id)->status.ok());
  EXPECT_EQ(job.value(1, "a"), 3);
}

TEST(RecoveryTest, AnErrorReachesEveryRank) {
  Job job(2, 1);
  OperationId id = job.Submit(0, "a", 1);
  job.All();
  job.workers[0]->machine.Abort(id, "rank 1 has not come for 60 s");
  job.All();
  ASSERT_NE(job.outcome(0, id), nullptr);
  EXPECT_EQ(job.outcome(0, id)->status.code(), StatusCode::kDeadlineExceeded);
  OperationId late = job.Submit(1, "a", 2);
  job.All();
  ASSERT_NE(job.outcome(1, late), nullptr);
  EXPECT_EQ(job.outcome(1, late)->status.code(), StatusCode::kDeadlineExceeded);
}

TEST(RecoveryTest, WhoGivesUpSaysOfWhatAndIsToldWhoIsNotThere) {
  Job job(4, 1);
  OperationId id = job.Submit(0, "a", 1);
  job.Submit(2, "a", 1);
  job.All();
  job.workers[0]->machine.Abort(id, "rank 0 is tired");
  job.All();
  ASSERT_NE(job.outcome(0, id), nullptr);
  EXPECT_EQ(
      job.outcome(0, id)->status.message(),
      "rank 0 is tired for tensor 'a', sum of uint8[4]; the tensor has nothing from rank 1, 3");
}

// A rank that gives up again and again does not wait for a rank that hangs. The owner of the piece
// keeps the errors in a row for the rank that hangs, even if the owner changes.
TEST(RecoveryTest, ErrorsInARowWaitForWhoHangs) {
  for (bool server_dies : {false, true}) {
    Job job(3, 2);
    for (int round = 0; round < 3; ++round) {
      OperationId id = job.Submit(0, "a", 1);
      job.All();
      job.workers[0]->machine.Abort(id, "late");
      job.All();
      ASSERT_NE(job.outcome(0, id), nullptr) << "round " << round;
      EXPECT_EQ(job.outcome(0, id)->status.code(), StatusCode::kDeadlineExceeded);
    }
    OperationId half = job.Submit(1, "a", 2);  // has seen the first of the errors
    job.All();
    ASSERT_NE(job.outcome(1, half), nullptr);
    job.Tick();
    if (server_dies) {
      job.KillServer(0);
      job.TellAll();
      job.KillWorker(0);  // only worker 1 knows of an error now, or the owner
      job.TellAll();
      job.All();
    }
    for (int round = 0; round < (server_dies ? 1 : 3); ++round) {
      OperationId id = job.Submit(2, "a", 4);
      job.All();
      ASSERT_NE(job.outcome(2, id), nullptr) << "round " << round;
      EXPECT_EQ(job.outcome(2, id)->status.code(), StatusCode::kDeadlineExceeded);
    }
    if (server_dies) continue;
    for (int round = 1; round < 3; ++round) {
      job.Submit(1, "a", 2);
      job.All();
    }
    for (Slot slot : {0u, 1u, 2u}) job.Submit(slot, "a", 1);
    job.All();
    for (Slot slot : {0u, 1u, 2u}) EXPECT_EQ(job.value(slot, "a"), 3);
  }
}

// Section 3: pieces may have two receipts; an atomic tensor has one.
TEST(RecoveryTest, AnAtomicTensorHasOneReceipt) {
  for (bool atomic : {false, true}) {
    Job job(3, 2);
    OperationId id = 0;
    for (Slot slot : {0u, 1u, 2u}) {
      id = job.Submit(slot, "a", static_cast<uint8_t>(slot + 1), 128, wire::Op::kSum, atomic);
    }
    job.Up(2, 0);  // the first piece of worker 2 arrives, the second does not
    job.KillWorker(2);
    job.TellAll();
    job.All();
    for (Slot slot : {0u, 1u}) {
      ASSERT_NE(job.outcome(slot, id), nullptr);
      const std::vector<uint8_t>& memory = job.workers[slot]->memory["a"];
      EXPECT_EQ(memory[127], 3);
      EXPECT_EQ(memory[0], atomic ? 3 : 6);
      EXPECT_EQ(job.outcome(slot, id)->mixed, !atomic);
      EXPECT_EQ(job.outcome(slot, id)->receipt->List(), (std::vector<Slot>{0, 1}));
    }
  }
}

TEST(RecoveryTest, ABroadcastWhoseRootIsLostFailsOnEveryRank) {
  Job job(3, 1);
  for (Slot slot : {1u, 2u}) job.Submit(slot, "a", 9, 4, wire::Op::kBroadcast);
  OperationId id = job.workers[1]->next - 1;
  job.KillWorker(0);
  job.TellAll();
  job.All();
  for (Slot slot : {1u, 2u}) {
    ASSERT_NE(job.outcome(slot, id), nullptr);
    EXPECT_EQ(job.outcome(slot, id)->status.code(), StatusCode::kPeerLost);
    EXPECT_EQ(job.workers[slot]->memory["a"], (std::vector<uint8_t>(4, 9)))
        << "there are no bytes to take, and the operation may be repeated with another root";
  }
}

TEST(RecoveryTest, NoServerIsLeftUntilOneComes) {
  Job job(2, 1);
  OperationId id = 0;
  for (Slot slot : {0u, 1u}) id = job.Submit(slot, "a", static_cast<uint8_t>(slot + 1));
  job.KillServer(0);
  job.TellAll();
  job.All();
  EXPECT_EQ(job.outcome(0, id), nullptr);
  job.ReviveServer(0);
  job.TellAll();
  job.All();
  for (Slot slot : {0u, 1u}) EXPECT_EQ(job.value(slot, "a"), 3);
}

// Simulated seed 10454: a piece goes to shard 1 and comes back. What shard 1 says of its answers is
// no news of the answers with the same numbers that the new shard 0 gave.
TEST(RecoveryTest, ANumberOfAFormerOwnerMakesNothingStable) {
  Job job(2, 2);
  OperationId id = 0;
  for (Slot slot : {0u, 1u}) id = job.Submit(slot, "a", static_cast<uint8_t>(slot + 1));
  for (Slot slot : {0u, 1u}) job.Up(slot, 0);
  job.Down(0, 0);  // worker 0 has the sum, worker 1 has not
  job.down[{1, 0}].clear();
  job.KillServer(0);
  job.TellShard(1);
  job.TellWorker(0);
  job.Up(0, 1);
  job.Down(0, 1);  // answer 1 of shard 1 is about it
  job.ReviveServer(0);
  job.TellShard(0);
  job.TellShard(1);
  job.TellWorker(0);
  job.Up(0, 0);
  job.Down(0, 0);  // and answer 1 of shard 0
  job.workers[0]->machine.OnFrame(1, wire::Stable{1, job.view.epoch});
  EXPECT_TRUE(job.workers[0]->machine.HoldsUnstable()) << "worker 1 lacks it";
  EXPECT_EQ(job.outcome(1, id), nullptr);
  job.TellWorker(1);
  job.All();
  EXPECT_EQ(job.value(1, "a"), 3);
}

// Rule 11: at rest nothing is left.
TEST(RecoveryTest, AtRestNobodyHoldsAnything) {
  Job job(2, 2);
  for (int round = 1; round <= 3; ++round) {
    for (Slot slot : {0u, 1u}) job.Submit(slot, "a", static_cast<uint8_t>(slot + 1), 256);
    job.All();
  }
  job.KillServer(0);
  job.TellAll();
  job.All();
  for (int i = 0; i < 4; ++i) {  // acknowledgements, then news of stability
    for (auto& worker : job.workers) {
      if (auto next = worker->machine.NextTick()) worker->machine.OnTick(*next);
    }
    job.All();
    for (auto& shard : job.shards) {
      if (auto next = shard->machine.NextTick()) shard->machine.OnTick(*next);
    }
    job.All();
  }
  for (auto& worker : job.workers) {
    EXPECT_FALSE(worker->machine.HoldsUnstable());
    EXPECT_EQ(worker->pool.bytes_in_use(), 0u);
  }
  EXPECT_EQ(job.shards[1]->machine.unstable_verdicts(), 0u);
  EXPECT_EQ(job.shards[1]->pool.bytes_in_use(), 0u);
}

}  // namespace
}  // namespace byteps::protocol
