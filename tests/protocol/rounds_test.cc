// Tests rounds in which not all workers take part, or whose results differ by rank, in small jobs.
#include <functional>

#include "src/protocol/shard/shard_fixture_for_test.h"
#include "src/protocol/worker/worker_for_test.h"
#include "tests/protocol/job_for_test.h"

namespace byteps::protocol {
namespace {

// A shard alone: three workers, one piece.
class ShardRoundsTest : public testing::Test {
 protected:
  ShardRoundsTest() { shard.OnView(view, 0); }

  Status Tell(Slot from, uint64_t number, const std::vector<Slot>& slots) {
    SlotSet set;
    for (Slot slot : slots) set.Insert(slot);
    std::vector<std::byte> bitmap(set.bitmap_bytes());
    set.ToBitmap(bitmap);
    return shard.OnFrame(from, wire::ProcessSet{number, 1, bitmap}, kStart);
  }

  Status TakeBack(Slot from, uint64_t number) {
    return shard.OnFrame(from, wire::ProcessSet{number, 1, {}}, kStart);
  }

  static wire::DataHeader Header(uint64_t round, uint32_t want, Combine combine = Combine::kSum) {
    wire::DataHeader header;
    header.ref = {7, 0, round};
    header.epoch = header.generation = 1;
    header.combine = combine;
    header.dtype = DataType::kUint8;
    header.piece_bytes = 1;
    header.want_bytes = want;
    return header;
  }

  static wire::DataHeader Late(wire::DataHeader header) {
    header.status = StatusCode::kDeadlineExceeded;
    return header;
  }

  Status Push(Slot from, wire::DataHeader header, const std::string& text) {
    Result<ByteSpan> place =
        shard.OnDataHeader(from, wire::FrameKind::kPush, header, text.size(), kStart);
    if (!place.ok()) return place.status();
    arithmetic.Copy(place->data(), reinterpret_cast<const std::byte*>(text.data()), text.size());
    shard.OnPayload(from);
    return Status::Ok();
  }

  std::vector<Slot> Answered() {
    std::vector<Slot> slots;
    for (const SentAnswer& answer : driver.answers) slots.push_back(answer.to);
    return slots;
  }

  BufferPool pool;
  KernelArithmetic arithmetic;
  RecordingShardDriver driver;
  wire::View view = ViewFor(3, 1);
  Shard shard{ShardOptions(), pool, arithmetic, driver};
};

TEST_F(ShardRoundsTest, ARoundOfAProcessSetWaitsForItsMembersOnly) {
  ASSERT_TRUE(Tell(0, 4, {0, 2}).ok());
  ASSERT_TRUE(Tell(2, 4, {0, 2}).ok());
  wire::DataHeader header = Header(256, 1);
  header.process_set = 4;
  EXPECT_TRUE(Push(0, header, "\x01").ok());
  EXPECT_TRUE(driver.answers.empty());
  EXPECT_TRUE(Push(2, header, "\x04").ok());
  EXPECT_EQ(Answered(), (std::vector<Slot>{0, 2}));
  EXPECT_EQ(driver.answers[0].bytes, "\x05");
  EXPECT_EQ(driver.answers[0].header.receipt, 0u) << "all of the process set";
  Say(shard, 0, wire::Ack{1, 1});
  EXPECT_EQ(shard.unstable_verdicts(), 1u);
  Say(shard, 2, wire::Ack{1, 1});
  EXPECT_EQ(shard.unstable_verdicts(), 0u) << "worker 1 has no part in it";
}

TEST_F(ShardRoundsTest, ProcessSetsThatAreNotSoundAreRefused) {
  ASSERT_TRUE(Tell(0, 4, {0, 2}).ok());
  EXPECT_EQ(Tell(1, 4, {0, 1}).code(), StatusCode::kProtocol);
  EXPECT_EQ(Tell(1, 5, {0, 2}).code(), StatusCode::kProtocol) << "the sender is not in it";
  EXPECT_EQ(Tell(1, 0, {0, 1, 2}).code(), StatusCode::kProtocol);
  wire::DataHeader header = Header(256, 1);
  header.process_set = 4;
  EXPECT_EQ(Push(1, header, "\x01").code(), StatusCode::kProtocol) << "not in it";
  header.process_set = 9;
  EXPECT_EQ(Push(0, header, "\x01").code(), StatusCode::kProtocol) << "unknown";
  EXPECT_TRUE(Push(2, Header(256, 1), "\x01").ok());
  header.process_set = 4;
  EXPECT_EQ(Push(0, header, "\x01").code(), StatusCode::kProtocol) << "another one pushed for all";
}

TEST_F(ShardRoundsTest, WhoContradictsIsNamedWithTheOther) {
  ASSERT_TRUE(Tell(2, 1, {2}).ok());
  EXPECT_EQ(Tell(0, 1, {0, 1}),
            Status(StatusCode::kProtocol,
                   "process set 1 has ranks 0, 1 on worker 0 and 2 on worker 2; add the same ranks "
                   "under the same number everywhere"));
}

TEST_F(ShardRoundsTest, AProcessSetThatItsMembersRemovedIsForgotten) {
  for (uint32_t number = 1; number <= wire::kProcessSetsMax + 1; ++number) {
    ASSERT_TRUE(Tell(0, number, {0, 2}).ok()) << number;
    ASSERT_TRUE(Tell(2, number, {0, 2}).ok()) << number;
    ASSERT_TRUE(TakeBack(2, number).ok());
    EXPECT_EQ(shard.process_sets(), 1u) << "worker 0 may push for it";
    ASSERT_TRUE(TakeBack(0, number).ok());
  }
  EXPECT_EQ(shard.process_sets(), 0u);
  EXPECT_TRUE(TakeBack(0, 1).ok()) << "what was told while the connection was down";
}

TEST_F(ShardRoundsTest, AMemberIsInSoManyProcessSetsAtATime) {
  for (uint32_t number = 1; number <= wire::kProcessSetsMax; ++number) {
    ASSERT_TRUE(Tell(0, number, {0, 2}).ok()) << number;
  }
  EXPECT_TRUE(Tell(0, 7, {0, 2}).ok()) << "known";
  EXPECT_EQ(Tell(0, 70000, {0, 2}).code(), StatusCode::kProtocol);
  EXPECT_TRUE(Tell(2, 70000, {0, 2}).ok()) << "its process sets are not those of another";
}

TEST_F(ShardRoundsTest, AProcessSetWithAnOpenRoundIsKept) {
  ASSERT_TRUE(Tell(0, 4, {0, 2}).ok());
  wire::DataHeader header = Header(256, 1);
  header.process_set = 4;
  EXPECT_TRUE(Push(0, header, "\x01").ok());
  shard.OnLost(0);
  EXPECT_EQ(shard.process_sets(), 1u) << "its contribution is here";
  ASSERT_TRUE(Tell(2, 4, {0, 2}).ok());
  EXPECT_TRUE(Push(2, header, "\x02").ok());
  EXPECT_EQ(driver.answers.back().bytes, "\x03");
  ASSERT_TRUE(TakeBack(2, 4).ok());
  EXPECT_EQ(shard.process_sets(), 0u);
  EXPECT_EQ(Push(2, header, "\x02").code(), StatusCode::kProtocol) << "removed, and pushed for";
  ASSERT_TRUE(Tell(0, 4, {0, 2}).ok()) << "the answer has not reached it: it comes again";
  EXPECT_TRUE(Push(0, header, "\x01").ok());
  EXPECT_EQ(driver.answers.back().to, 0u);
}

TEST_F(ShardRoundsTest, AProcessSetIsForgottenWithItsLastConnection) {
  ASSERT_TRUE(Tell(0, 4, {0, 2}).ok());
  ASSERT_TRUE(Tell(2, 4, {0, 2}).ok());
  ASSERT_TRUE(TakeBack(0, 4).ok());
  shard.OnLost(2);
  EXPECT_EQ(shard.process_sets(), 0u) << "it may have been removed while nothing could be told";
}

TEST_F(ShardRoundsTest, AProcessSetWhoseMembersAreAllGoneLeavesNothing) {
  ASSERT_TRUE(Tell(2, 4, {2}).ok());
  wire::DataHeader header = Header(256, 1);
  header.process_set = 4;
  ASSERT_TRUE(shard.OnDataHeader(2, wire::FrameKind::kPush, header, 1, kStart).ok());
  EXPECT_EQ(shard.open_rounds(), 1u);
  ++view.epoch;
  view.workers.pop_back();
  shard.OnView(view, 0);
  EXPECT_EQ(shard.open_rounds(), 0u);
  EXPECT_EQ(shard.unstable_verdicts(), 0u);
  EXPECT_EQ(shard.process_sets(), 0u);
}

TEST_F(ShardRoundsTest, WhoWantsNothingIsAnsweredWhenTheOthersHaveTheirs) {
  for (Slot slot : {0u, 1u, 2u})
    EXPECT_TRUE(Push(slot, Header(256, slot == 1 ? 1 : 0), "\x02").ok());
  EXPECT_EQ(Answered(), (std::vector<Slot>{1}));
  Say(shard, 1, wire::Ack{1, 1});
  EXPECT_EQ(Answered(), (std::vector<Slot>{1, 0, 2}));
  EXPECT_TRUE(driver.answers[1].bytes.empty());
}

TEST_F(ShardRoundsTest, WhenTheReceiverIsLostTheOthersAreAnswered) {
  for (Slot slot : {0u, 1u, 2u})
    EXPECT_TRUE(Push(slot, Header(256, slot == 2 ? 1 : 0), "\x02").ok());
  EXPECT_EQ(Answered(), (std::vector<Slot>{2}));
  ++view.epoch;
  view.workers.pop_back();
  shard.OnView(view, 0);
  EXPECT_EQ(Answered(), (std::vector<Slot>{2, 0, 1}));
}

TEST_F(ShardRoundsTest, WhenTheTensorIsRetiredWhoWaitsIsAnsweredAsAlways) {
  for (Slot slot : {0u, 1u, 2u}) {
    EXPECT_TRUE(Push(slot, Header(256, slot == 2 ? 1 : 0), "\x02").ok());
    Say(shard, slot, wire::Resync{1});
  }
  shard.Retire({7}, 2);
  EXPECT_EQ(Answered(), (std::vector<Slot>{2}));
  Say(shard, 2, wire::Ack{1, 1});
  EXPECT_EQ(Answered(), (std::vector<Slot>{2, 0, 1}));
}

TEST_F(ShardRoundsTest, AnErrorIsForAllAtOnce) {
  EXPECT_TRUE(Push(0, Header(256, 0), "\x02").ok());
  EXPECT_TRUE(Push(1, Header(256, 1), "\x02").ok());
  Say(shard, 0, wire::Abort{Late(Header(256, 1)), "too late"});
  EXPECT_EQ(Answered(), (std::vector<Slot>{0, 1}));
  EXPECT_EQ(ErrorIn(driver.answers[0]),
            Status(StatusCode::kDeadlineExceeded, "too late; the tensor has nothing from rank 2"));
}

TEST_F(ShardRoundsTest, WhoHasJoinedIsNotWaitedForButAveragesCountIt) {
  Say(shard, 2, wire::Joined{1, 1, {}});
  EXPECT_TRUE(Push(0, Header(256, 1, Combine::kAverage), "\x09").ok());
  EXPECT_TRUE(Push(1, Header(256, 1, Combine::kAverage), "\x06").ok());
  ASSERT_EQ(Answered(), (std::vector<Slot>{0, 1}));
  EXPECT_EQ(driver.answers[0].bytes, "\x05") << "15 / 3";
  EXPECT_NE(driver.answers[0].header.receipt, 0u) << "it is not in the receipt";
  for (Slot slot : {0u, 1u}) Say(shard, slot, wire::Ack{1, 1});
  EXPECT_EQ(shard.unstable_verdicts(), 0u);
}

TEST_F(ShardRoundsTest, AJoinBelongsToTheRoundsThatCountOneLess) {
  Say(shard, 2, wire::Joined{1, 1, {}});
  uint64_t after = wire::RoundOf(wire::FirstRoundAfter(1) + 1, 0);
  for (Slot slot : {0u, 1u}) EXPECT_TRUE(Push(slot, Header(after, 1), "\x01").ok());
  EXPECT_TRUE(driver.answers.empty());
  EXPECT_TRUE(Push(2, Header(after, 1), "\x01").ok());
  EXPECT_EQ(driver.answers.size(), 3u);
}

TEST_F(ShardRoundsTest, WhatAMemberSaysOfItsJoinsCountsForItAlone) {
  Say(shard, 2, wire::Joined{uint64_t{1} << 50, 1, {}});
  Say(shard, 0, wire::Joined{1, 1, {}});
  for (Slot slot : {1u, 2u}) EXPECT_TRUE(Push(slot, Header(256, 1), "\x01").ok());
  EXPECT_EQ(Answered(), (std::vector<Slot>{1, 2})) << "worker 0 has joined";
}

// Tests a piece that no other shard has ever owned.
TEST_F(ShardRoundsTest, WhatNobodyHasDecidedNobodyHolds) {
  wire::DataHeader lie = Header(UINT64_MAX, 0);
  lie.piece_bytes = 0;
  EXPECT_EQ(shard.OnDataHeader(2, wire::FrameKind::kVerdict, lie, 0, kStart).status().code(),
            StatusCode::kProtocol);
  Say(shard, 2, wire::Have{1, {{{7, 0, UINT64_MAX}, 0}}});
  for (Slot slot : {0u, 1u, 2u}) EXPECT_TRUE(Push(slot, Header(256, 1), "\x01").ok());
  ASSERT_EQ(driver.answers.size(), 3u);
  Say(shard, 2, wire::Have{1, {{{7, 0, 256}, 0}}});
  EXPECT_EQ(shard.unstable_verdicts(), 1u) << "the others may lack it";
  shard.OnLost(0);
  EXPECT_TRUE(Push(0, Header(256, 1), "\x01").ok());
  EXPECT_EQ(driver.answers.back().to, 0u);
  for (Slot slot : {0u, 1u}) Say(shard, slot, wire::Ack{1, 1});
  EXPECT_EQ(shard.unstable_verdicts(), 0u);
}

TEST_F(ShardRoundsTest, OfTwoRoundsThatContradictEachOtherBothPushersAreNamed) {
  EXPECT_TRUE(Push(2, Header(5 * 256, 1), "\x01").ok());
  EXPECT_EQ(Push(0, Header(256, 1), "\x01"),
            Status(StatusCode::kProtocol,
                   "push refused: worker 0 pushed round 256 where worker 2 pushed round 1280: "
                   "tensor 7, piece 0"));
}

// The worker never pushes the round again, so the shard must keep nothing for it.
TEST_F(ShardRoundsTest, WhoJoinsLaterNeedsNoErrorOfBefore) {
  EXPECT_TRUE(Push(0, Header(256, 1), "\x01").ok());
  Say(shard, 0, wire::Abort{Late(Header(256, 1)), "too late"});
  EXPECT_TRUE(Push(1, Header(256, 1), "\x01").ok());
  ASSERT_EQ(Answered(), (std::vector<Slot>{0, 1}));
  for (Slot slot : {0u, 1u}) Say(shard, slot, wire::Ack{1, 1});
  EXPECT_EQ(shard.unstable_verdicts(), 1u) << "worker 2 may still push";
  Say(shard, 2, wire::Joined{1, 1, {}});
  EXPECT_EQ(shard.unstable_verdicts(), 0u);
}

TEST_F(ShardRoundsTest, TheJoinItselfWaitsForAllAndTheLastOneWins) {
  for (Slot slot : {2u, 0u, 1u}) {
    Say(shard, slot, wire::Joined{1, 1, {}});
    EXPECT_TRUE(driver.answers.empty());
    EXPECT_TRUE(
        Push(slot, Header(256, 1, Combine::kLast), std::string(1, static_cast<char>(slot))).ok());
  }
  ASSERT_EQ(driver.answers.size(), 3u);
  EXPECT_EQ(driver.answers[0].bytes, "\x01");
  EXPECT_EQ(shard.unstable_verdicts(), 1u) << "all who have joined need it";
  for (Slot slot : {0u, 1u, 2u}) Say(shard, slot, wire::Ack{1, 1});
  EXPECT_EQ(shard.unstable_verdicts(), 0u);
}

TEST_F(ShardRoundsTest, ABroadcastFromOneThatHasJoinedIsAnError) {
  Say(shard, 0, wire::Joined{1, 1, {}});
  for (Slot slot : {1u, 2u}) EXPECT_TRUE(Push(slot, Header(256, 1, Combine::kOverlay), "").ok());
  ASSERT_EQ(Answered(), (std::vector<Slot>{1, 2}));
  EXPECT_EQ(driver.answers[0].header.status, StatusCode::kInvalidArgument);
  EXPECT_NE(driver.answers[0].bytes.find("rank 0 has joined"), std::string::npos);
}

// ---- Whole small jobs.

struct RoundsJob : Job {
  using Job::Job;
  OperationId Start(Slot slot, Operation operation, std::vector<uint8_t> input) {
    WorkerEnd& worker = *workers[slot];
    worker.memory["in " + operation.name] = std::move(input);
    std::vector<uint8_t>& in = worker.memory["in " + operation.name];
    std::vector<uint8_t>& out = worker.memory[operation.name];
    out.assign(in.size(), 0xee);
    operation.id = worker.next++;
    operation.input = reinterpret_cast<std::byte*>(in.data());
    operation.output = reinterpret_cast<std::byte*>(out.data());
    operation.spec.dtype = DataType::kUint8;
    Status accepted = worker.machine.Submit(operation);
    EXPECT_TRUE(accepted.ok()) << accepted.message();
    for (const wire::Declare& asked : std::exchange(worker.declares, {})) {
      std::vector<uint64_t> placement(view.servers.size(), 0);
      placement.push_back(view.servers.size());
      worker.machine.OnDeclared({asked.name, asked.spec.process_set, asked.attempt,
                                 static_cast<TensorId>(asked.name[0]), placement});
    }
    return operation.id;
  }
  OperationId Scatter(Slot slot, uint8_t value) {
    Operation operation;
    operation.name = "r";
    operation.spec.op = wire::Op::kReducescatter;
    operation.spec.shape = {static_cast<int64_t>(workers.size())};
    return Start(slot, operation, std::vector<uint8_t>(workers.size(), value));
  }
  bool Done(Slot slot, OperationId id) {
    const Outcome* ended = outcome(slot, id);
    return ended != nullptr && ended->status.ok();
  }
  void Tick() {
    for (auto& worker : workers) worker->machine.OnTick(kStart + seconds(1));
  }
};

// Worker 0 has its answers, and its memory belongs to somebody else; then the owner of its piece
// dies. Nobody can make the sum again, and nobody needs it.
TEST(RoundsTest, WhoHasItsEmptyAnswerIsNotAskedForItsContributionAgain) {
  RoundsJob job(3, 2);
  std::vector<OperationId> ids;
  for (Slot slot : {0u, 1u, 2u}) ids.push_back(job.Scatter(slot, static_cast<uint8_t>(1 << slot)));
  for (int i = 0; i < 4; ++i) {
    for (Slot slot : {0u, 1u, 2u}) {
      for (ShardId shard : {0u, 1u}) job.Up(slot, shard);
    }
    for (ShardId shard : {0u, 1u}) job.Down(0, shard);
    for (ShardId shard : {0u, 1u}) job.Down(1, shard);
    job.Tick();
  }
  // Worker 2 has heard nothing, so the others wait for the bytes that it wants.
  EXPECT_FALSE(job.Done(0, ids[0]));
  job.Down(2, 0);
  job.Down(2, 1);
  job.Tick();
  for (ShardId shard : {0u, 1u}) job.Up(2, shard);
  for (ShardId shard : {0u, 1u}) job.Down(0, shard);
  ASSERT_TRUE(job.Done(0, ids[0]));
  job.workers[0]->memory["in r"].assign(3, 99);
  job.KillServer(0);
  job.TellAll();
  job.All();
  for (Slot slot : {0u, 1u, 2u}) {
    ASSERT_TRUE(job.Done(slot, ids[slot])) << slot;
    EXPECT_EQ(job.value(slot, "r"), 7) << slot;
    EXPECT_EQ(job.outcome(slot, ids[slot])->receipt->List(), (std::vector<Slot>{0, 1, 2}));
  }
  job.Tick();
  job.All();
  for (auto& shard : job.shards) EXPECT_EQ(shard->machine.open_rounds(), 0u);
}

// The new owner hears of the join before it hears what the joined worker holds. The owner must wait
// for that, or it makes another sum of the same round.
TEST(RoundsTest, ANewOwnerWaitsForWhatAJoinedWorkerHolds) {
  RoundsJob job(3, 2);
  OperationId sum = 0;
  for (Slot slot : {0u, 1u, 2u}) sum = job.Submit(slot, "a", static_cast<uint8_t>(slot + 1));
  for (Slot slot : {0u, 1u, 2u}) job.Up(slot, 0);
  job.Down(2, 0);  // worker 2 alone has the sum
  ASSERT_TRUE(job.Done(2, sum));
  job.Join(2);
  job.KillServer(0);
  job.TellAll();
  job.Up(2, 1);  // what it said before the view came, and after
  job.All();
  for (Slot slot : {0u, 1u}) {
    ASSERT_TRUE(job.Done(slot, sum));
    EXPECT_EQ(job.value(slot, "a"), 6) << "its part is in it";
  }
}

TEST(RoundsTest, RoundsAreCountedAnewAfterAJoin) {
  RoundsJob job(2, 1);
  for (int step = 0; step < 3; ++step) {
    OperationId first = job.Submit(0, "a", 1);
    if (step == 0) job.Submit(1, "a", 1);
    job.All();
    if (step == 0) job.Join(1);
    job.All();
    ASSERT_TRUE(job.Done(0, first)) << step;
    EXPECT_EQ(job.value(0, "a"), step == 0 ? 2 : 1);
  }
  OperationId last = job.Join(0);
  job.All();
  ASSERT_TRUE(job.Done(0, last));
  EXPECT_EQ(job.outcome(0, last)->rows, 0u) << "rank 0 was last";
  OperationId next = job.Submit(0, "a", 5);
  job.Submit(1, "a", 6);
  job.All();
  ASSERT_TRUE(job.Done(0, next));
  EXPECT_EQ(job.value(0, "a"), 11);
}

TEST(RoundsTest, AJoinNeedsThatNothingIsOpen) {
  RoundsJob job(2, 1);
  job.Submit(0, "a", 1);
  Operation join;
  join.name = "j";
  join.spec.op = wire::Op::kJoin;
  EXPECT_EQ(job.workers[0]->machine.Submit(join).code(), StatusCode::kInvalidArgument);
}

TEST(RoundsTest, ShardsForgetRemovedProcessSetsAndGoOn) {
  RoundsJob job(3, 2);
  for (uint32_t number = 1; number <= 3; ++number) {
    const std::string name(1, static_cast<char>('a' + number));
    for (Slot slot : {2u, 0u}) {
      ASSERT_TRUE(job.workers[slot]->machine.AddProcessSet(number, {0, 2}).ok());
      Operation sum;
      sum.name = name;
      sum.spec.shape = {1};
      sum.spec.process_set = number;
      job.Start(slot, sum, {1});
      if (slot == 2) job.All();
    }
    job.All();
    ASSERT_TRUE(job.workers[1]->machine.AddProcessSet(number, {0, 2}).ok());
    for (Slot slot : {0u, 1u, 2u}) {
      EXPECT_EQ(slot == 1 ? 2 : job.value(slot, name), 2);
      EXPECT_TRUE(job.workers[slot]->machine.RemoveProcessSet(number).ok());
      if (slot == 0) job.Connect(2, 0);  // worker 2 has not removed it
      job.All();
    }
    for (auto& shard : job.shards) EXPECT_EQ(shard->machine.process_sets(), 0u);
  }
}

TEST(RoundsTest, ARankIsInSoManyProcessSetsAtATime) {
  RoundsJob job(1, 1);
  Worker& worker = job.workers[0]->machine;
  for (uint32_t number = 1; number <= wire::kProcessSetsMax; ++number) {
    ASSERT_TRUE(worker.AddProcessSet(number, {0}).ok());
  }
  EXPECT_EQ(worker.AddProcessSet(70000, {0}).code(), StatusCode::kExhausted);
  EXPECT_TRUE(worker.RemoveProcessSet(9).ok());
  EXPECT_TRUE(worker.AddProcessSet(70000, {0}).ok());
}

// After the end the memory and the table of an allgather's rows belong to the user, so the engine
// keeps a layout of its own.
TEST(RoundsTest, ALayoutIsKeptAsLongAsItsResult) {
  RoundsJob job(2, 2);
  std::vector<OperationId> ids;
  for (Slot slot : {0u, 1u}) {
    Operation gather;
    gather.name = "g";
    gather.spec.op = wire::Op::kAllgather;
    gather.spec.shape = {1};
    gather.rows = 2;
    ids.push_back(job.Start(slot, gather, {static_cast<uint8_t>(slot + 1), 9}));
  }
  // Makes receipts in full: the shards answer in a view that the workers are not known to have.
  ++job.view.epoch;
  for (ShardId shard : {0u, 1u}) job.TellShard(shard);
  job.TellWorker(0);
  job.TellWorker(1);
  for (int i = 0; i < 3; ++i) {
    for (Slot slot : {0u, 1u}) {
      for (ShardId shard : {0u, 1u}) {
        job.Up(slot, shard);
        job.Down(slot, shard);
      }
    }
  }
  for (Slot slot : {0u, 1u}) ASSERT_TRUE(job.Done(slot, ids[slot]));
  job.KillServer(0);
  job.TellAll();
  job.All();
  EXPECT_EQ(job.shards[1]->machine.open_rounds(), 0u);
}

}  // namespace
}  // namespace byteps::protocol
