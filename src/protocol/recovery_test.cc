// Workers and shards together over queues that the test delivers: owner changes, reconnects, lost
// members, errors, receipts. The simulator plays thousands of such histories; these are the ones
// that docs/membership.md draws.
#include <gtest/gtest.h>

#include <deque>

#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/shard.h"
#include "src/protocol/worker.h"

namespace byteps::protocol {
namespace {

constexpr Time kStart{};

// A small job: each connection is a pair of queues; nothing moves unless the test says so.
class Job {
 public:
  struct Frame {
    std::function<void()> deliver;
    std::vector<std::byte> payload;
    BufferRef keep;
  };

  Job(uint32_t workers, uint32_t servers, ShardMistake shard_mistake = ShardMistake::kNone,
      WorkerMistake worker_mistake = WorkerMistake::kNone) {
    view.epoch = view.generation = view.began = 1;
    view.piece_bytes_max = 64;
    for (uint32_t i = 0; i < workers; ++i) view.workers.push_back({i, i, 100 + i, "h", i, 0, 1});
    for (uint32_t i = 0; i < servers; ++i) {
      wire::ServerInfo server;
      server.index = server.first_shard = i;
      server.shard_weights = {1};
      view.servers.push_back(server);
      ShardOptions options;
      options.mistake = shard_mistake;
      shards.push_back(std::make_unique<ShardEnd>(*this, i, options));
      shards[i]->machine.OnView(view, i);
    }
    for (uint32_t i = 0; i < workers; ++i) {
      WorkerOptions options;
      options.mistake = worker_mistake;
      this->workers.push_back(std::make_unique<WorkerEnd>(*this, i, options));
      this->workers[i]->machine.OnView(view, i);
      for (uint32_t s = 0; s < servers; ++s) Connect(i, s);
    }
  }

  struct ShardEnd final : ShardDriver {
    ShardEnd(Job& owner, ShardId number, const ShardOptions& options)
        : job(owner), id(number), machine(options, pool, arithmetic, *this) {}
    void SendAnswer(Slot to, const wire::DataHeader& header, ConstByteSpan payload,
                    BufferRef keep) override {
      std::vector<std::byte> bytes(payload.begin(), payload.end());
      job.down[{to, id}].push_back([this, to, header, bytes, keep] {
        Result<ByteSpan> place = job.workers[to]->machine.OnAnswerHeader(id, header, bytes.size());
        ASSERT_TRUE(place.ok()) << place.status().message();
        std::copy(bytes.begin(), bytes.end(), place.value().begin());
        job.workers[to]->machine.OnAnswer(id, kStart);
      });
    }
    void SendWant(Slot, const std::vector<wire::PieceRef>&) override {}
    void SendStable(Slot to, uint64_t count) override {
      job.down[{to, id}].push_back(
          [this, to, count] { job.workers[to]->machine.OnStable(id, count); });
    }
    Job& job;
    ShardId id;
    BufferPool pool;
    KernelArithmetic arithmetic;
    Shard machine;
  };

  struct WorkerEnd final : WorkerDriver {
    WorkerEnd(Job& owner, Slot number, const WorkerOptions& options)
        : job(owner), slot(number), machine(options, pool, arithmetic, *this) {}
    void SendControl(const wire::Message& message) override {
      const auto* declare = std::get_if<wire::Declare>(&message);
      if (declare != nullptr) names.push_back(declare->name);
    }
    void SendData(ShardId to, bool verdict, const wire::DataHeader& header, ConstByteSpan payload) {
      std::vector<std::byte> bytes(payload.begin(), payload.end());
      job.up[{slot, to}].push_back([this, to, verdict, header, bytes] {
        Shard& shard = job.shards[to]->machine;
        Result<ByteSpan> place = verdict ? shard.OnVerdictHeader(slot, header, bytes.size(), kStart)
                                         : shard.OnPushHeader(slot, header, bytes.size(), kStart);
        ASSERT_TRUE(place.ok()) << place.status().message();
        std::copy(bytes.begin(), bytes.end(), place.value().begin());
        shard.OnPayload(slot);
      });
    }
    void SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload) override {
      SendData(to, false, header, payload);
    }
    void SendVerdict(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                     BufferRef) override {
      ++verdicts;
      SendData(to, true, header, payload);
    }
    void SendHave(ShardId to, uint64_t epoch, const std::vector<wire::PieceRef>& refs) override {
      job.up[{slot, to}].push_back(
          [this, to, epoch, refs] { job.shards[to]->machine.OnHave(slot, epoch, refs); });
    }
    void SendResync(ShardId to, uint64_t epoch) override {
      job.up[{slot, to}].push_back(
          [this, to, epoch] { job.shards[to]->machine.OnResync(slot, epoch); });
    }
    void SendAbort(ShardId to, uint64_t epoch, const wire::PieceRef& ref,
                   const std::string& why) override {
      job.up[{slot, to}].push_back(
          [this, to, epoch, ref, why] { job.shards[to]->machine.OnAbort(slot, epoch, ref, why); });
    }
    void SendAck(ShardId to, uint64_t count) override {
      job.up[{slot, to}].push_back(
          [this, to, count] { job.shards[to]->machine.OnAck(slot, count, kStart); });
    }
    void Forget(ConstByteSpan) override {}
    void Complete(OperationId id, Outcome outcome) override { outcomes[id] = std::move(outcome); }

    Job& job;
    Slot slot;
    BufferPool pool;
    KernelArithmetic arithmetic;
    std::vector<std::string> names;
    std::map<OperationId, Outcome> outcomes;
    std::map<std::string, std::vector<uint8_t>> memory;
    int verdicts = 0;
    OperationId next = 1;
    Worker machine;
  };

  void Connect(Slot slot, ShardId shard) {
    up[{slot, shard}].clear();
    down[{slot, shard}].clear();
    shards[shard]->machine.OnLost(slot);
    workers[slot]->machine.OnShardUp(shard);
  }

  // Slot s contributes s + 1 in round 1, 10 times that in round 2 ...; the same tensor for all.
  OperationId Submit(Slot slot, const std::string& name, uint8_t value, size_t bytes = 4,
                     wire::Op op = wire::Op::kSum, bool atomic = false) {
    WorkerEnd& worker = *workers[slot];
    std::vector<uint8_t>& memory = worker.memory[name];
    memory.assign(bytes, value);
    Operation operation;
    operation.id = worker.next++;
    operation.name = name;
    operation.spec = {op, DataType::kUint8, 0, {static_cast<int64_t>(bytes)}, atomic};
    operation.input = operation.output = reinterpret_cast<std::byte*>(memory.data());
    EXPECT_TRUE(worker.machine.Submit(operation).ok());
    for (const std::string& asked : std::exchange(worker.names, {})) {
      // Tensor numbers follow the names; the dealer begins at shard 0.
      std::vector<uint64_t> placement(view.servers.size(), 0);
      placement.push_back(view.servers.size());
      worker.machine.OnDeclared({asked, 0, static_cast<TensorId>(asked[0]), placement});
    }
    return operation.id;
  }

  // Delivers what is queued on one way, or on all until nothing moves.
  void Up(Slot slot, ShardId shard) { Drain(up[{slot, shard}]); }
  void Down(Slot slot, ShardId shard) { Drain(down[{slot, shard}]); }
  void All() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (auto* queues : {&up, &down}) {
        for (auto& [key, queue] : *queues) {
          bool dead = !alive(key.first) || !view.servers[key.second].alive;
          if (dead) queue.clear();
          moved = moved || !queue.empty();
          Drain(queue);
        }
      }
    }
  }

  bool alive(Slot slot) const {
    return std::any_of(view.workers.begin(), view.workers.end(),
                       [&](const wire::WorkerInfo& worker) { return worker.slot == slot; });
  }

  void KillServer(uint32_t index) {
    ++view.epoch;
    view.servers[index].alive = false;
    view.servers[index].since = view.epoch;
  }
  void KillWorker(Slot slot) {
    ++view.epoch;
    std::erase_if(view.workers, [&](const wire::WorkerInfo& w) { return w.slot == slot; });
  }
  void ReviveServer(uint32_t index) {
    ++view.epoch;
    view.servers[index].alive = true;
    view.servers[index].since = view.epoch;
    shards[index] = std::make_unique<ShardEnd>(*this, index, ShardOptions());
  }
  void TellWorker(Slot slot) {
    for (const wire::ServerInfo& server : view.servers) {
      if (server.since == view.epoch) workers[slot]->machine.OnShardDown(server.index);
    }
    workers[slot]->machine.OnView(view, slot);
    for (const wire::ServerInfo& server : view.servers) {
      if (server.since == view.epoch && server.alive) Connect(slot, server.index);
    }
  }
  void TellShard(ShardId shard) { shards[shard]->machine.OnView(view, shard); }
  void TellAll() {
    for (ShardId s = 0; s < shards.size(); ++s) {
      if (view.servers[s].alive) TellShard(s);
    }
    for (const wire::WorkerInfo& worker : view.workers) TellWorker(worker.slot);
  }

  const Outcome* outcome(Slot slot, OperationId id) {
    auto found = workers[slot]->outcomes.find(id);
    return found == workers[slot]->outcomes.end() ? nullptr : &found->second;
  }
  uint8_t value(Slot slot, const std::string& name) { return workers[slot]->memory[name][0]; }

  using Queue = std::deque<std::function<void()>>;
  using Way = std::pair<Slot, ShardId>;
  static void Drain(Queue& queue) {
    while (!queue.empty()) {
      auto deliver = std::move(queue.front());
      queue.pop_front();
      deliver();
    }
  }

  wire::View view;
  std::map<Way, Queue> up;
  std::map<Way, Queue> down;
  std::vector<std::unique_ptr<ShardEnd>> shards;
  std::vector<std::unique_ptr<WorkerEnd>> workers;
};

// History A: the shard that holds the lost worker's contribution whole counts it.
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

// The users overwrite their memory at once; only the engine can still know the sum.
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
    if (keep) EXPECT_EQ(job.value(1, "a"), 3);
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

// And an answer of a view that the worker does not know yet.
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

// Section 3: pieces with two receipts; an atomic tensor has one.
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
  for (Slot slot : {1u, 2u}) job.Submit(slot, "a", 0, 4, wire::Op::kBroadcast);
  OperationId id = job.workers[1]->next - 1;
  job.KillWorker(0);
  job.TellAll();
  job.All();
  for (Slot slot : {1u, 2u}) {
    ASSERT_NE(job.outcome(slot, id), nullptr);
    EXPECT_EQ(job.outcome(slot, id)->status.code(), StatusCode::kPeerLost);
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

// At rest nothing is left: rule 11.
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
