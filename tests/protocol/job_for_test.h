// Workers and shards together over queues that a test delivers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/protocol/codec_for_test.h"
#include "src/protocol/kernel_arithmetic.h"
#include "src/protocol/shard/shard.h"
#include "src/protocol/shard/shard_for_test.h"
#include "src/protocol/shard/shard_mistakes_for_test.h"
#include "src/protocol/worker/worker_for_test.h"
#include "src/protocol/worker/worker_mistakes_for_test.h"

namespace byteps::protocol {

// A small job: each connection is a pair of queues; nothing moves unless the test says so.
class Job {
 public:
  struct Frame {
    std::function<void()> deliver;
    std::vector<std::byte> payload;
    BufferRef keep;
  };

  Job(uint32_t worker_count, uint32_t servers, ShardMistake shard_mistake = ShardMistake::kNone,
      WorkerMistake worker_mistake = WorkerMistake::kNone, uint32_t lanes = 1) {
    view.epoch = view.generation = view.began = 1;
    view.piece_bytes_max = 64;
    for (uint32_t i = 0; i < worker_count; ++i) {
      view.workers.push_back({i, i, 100 + i, "h", i, 0, 1});
    }
    for (uint32_t i = 0; i < servers; ++i) {
      wire::ServerInfo server;
      server.index = server.first_shard = i;
      server.shard_weights = {1};
      view.servers.push_back(server);
      shards.push_back(std::make_unique<ShardEnd>(*this, i, shard_mistake));
      shards[i]->machine.OnView(view, i);
    }
    for (uint32_t i = 0; i < worker_count; ++i) {
      WorkerOptions options;
      options.lane_rules = &LaneRulesWith(worker_mistake);
      options.lanes = lanes;
      options.codecs = &codecs;
      workers.push_back(std::make_unique<WorkerEnd>(*this, i, options));
      workers[i]->machine.OnView(view, i);
      for (uint32_t s = 0; s < servers; ++s) Connect(i, s);
    }
  }

  struct ShardEnd final : ShardDriver {
    ShardEnd(Job& owner, ShardId number, ShardMistake mistake = ShardMistake::kNone)
        : job(owner),
          id(number),
          mistaken(mistake, arithmetic, *this),
          machine(mistaken.OptionsFrom(OptionsWith(owner.codecs)), pool, mistaken.arithmetic(),
                  mistaken.driver()) {}
    static ShardOptions OptionsWith(const Codecs& codecs) {
      ShardOptions options;
      options.codecs = &codecs;
      return options;
    }
    void SendData(Slot to, wire::DataFrame frame) override {
      std::vector<std::byte> bytes(frame.payload.begin(), frame.payload.end());
      job.down[{to, id}].push_back([this, to, header = frame.header, bytes, keep = frame.keep] {
        Result<ByteSpan> place = job.workers[to]->machine.OnAnswerHeader(id, header, bytes.size());
        ASSERT_TRUE(place.ok()) << place.status().message();
        std::copy(bytes.begin(), bytes.end(), place.value().begin());
        job.workers[to]->machine.OnAnswer(id, kStart);
      });
    }
    void Send(Slot to, const wire::Frame& frame) override {
      if (!std::holds_alternative<wire::Stable>(frame)) return;  // wants come from tests
      job.down[{to, id}].push_back(
          [this, to, frame] { job.workers[to]->machine.OnFrame(id, frame); });
    }
    Job& job;
    ShardId id;
    BufferPool pool;
    KernelArithmetic arithmetic;
    MistakenShard mistaken;
    Shard machine;
  };

  struct WorkerEnd final : WorkerDriver {
    WorkerEnd(Job& owner, Slot number, const WorkerOptions& options)
        : job(owner), slot(number), machine(options, pool, arithmetic, *this) {}
    void SendControl(const wire::Message& message) override {
      const auto* declare = std::get_if<wire::Declare>(&message);
      if (declare != nullptr) declares.push_back(*declare);
    }
    void SendData(ShardId to, wire::DataFrame frame) override {
      if (frame.kind == wire::FrameKind::kVerdict) ++verdicts;
      std::vector<std::byte> bytes(frame.payload.begin(), frame.payload.end());
      job.up[{slot, to}].push_back([this, to, kind = frame.kind, header = frame.header, bytes] {
        Shard& shard = job.shards[to]->machine;
        Result<ByteSpan> place = shard.OnDataHeader(slot, kind, header, bytes.size(), kStart);
        ASSERT_TRUE(place.ok()) << place.status().message();
        std::copy(bytes.begin(), bytes.end(), place.value().begin());
        shard.OnPayload(slot);
      });
    }
    void Send(ShardId to, const wire::Frame& frame) override {
      job.up[{slot, to}].push_back([this, to, frame] {
        Status taken = job.shards[to]->machine.OnFrame(slot, frame, kStart);
        ASSERT_TRUE(taken.ok()) << taken.message();
      });
    }
    void Forget(ConstByteSpan) override {}
    void Complete(OperationId id, Outcome outcome) override { outcomes[id] = std::move(outcome); }

    Job& job;
    Slot slot;
    BufferPool pool;
    KernelArithmetic arithmetic;
    std::vector<wire::Declare> declares;
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

  // Submits a tensor of `bytes` elements, all of them `value`, for one slot.
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
    AnswerDeclares(worker);
    return operation.id;
  }

  OperationId Join(Slot slot) {
    WorkerEnd& worker = *workers[slot];
    Operation operation;
    operation.id = worker.next++;
    operation.name = "j";
    operation.spec.op = wire::Op::kJoin;
    operation.spec.dtype = DataType::kInt64;
    Status accepted = worker.machine.Submit(operation);
    EXPECT_TRUE(accepted.ok()) << accepted.message();
    AnswerDeclares(worker);
    return operation.id;
  }

  void AnswerDeclares(WorkerEnd& worker) {
    for (const wire::Declare& asked : std::exchange(worker.declares, {})) {
      // Tensor numbers follow from the names; the dealer begins at shard 0.
      std::vector<uint64_t> placement(view.servers.size(), 0);
      placement.push_back(view.servers.size());
      worker.machine.OnDeclared({asked.name, asked.spec.process_set, asked.attempt,
                                 static_cast<TensorId>(asked.name[0] + 256 * asked.attempt),
                                 placement});
    }
  }
  // Tells the server of this shard that the ranks disagree.
  void TellFailed(ShardId shard, const wire::DeclareFailed& failed) {
    shards[shard]->machine.Retire(failed.tensors, failed.use.round);
  }

  // Deliver the frames that are queued in one direction of a connection (Up, Down), or all frames
  // until nothing moves (All).
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

  // Lets time pass: sends and delivers acknowledgements and the news of stability.
  void Tick() {
    Time later = kStart + seconds(++ticks);
    for (const wire::WorkerInfo& worker : view.workers) workers[worker.slot]->machine.OnTick(later);
    All();
    for (ShardId s = 0; s < shards.size(); ++s) {
      if (view.servers[s].alive) shards[s]->machine.OnTick(later);
    }
    All();
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
    auto lost = std::find_if(view.workers.begin(), view.workers.end(),
                             [&](const wire::WorkerInfo& w) { return w.slot == slot; });
    view.gone.push_back(*lost);
    view.workers.erase(lost);
  }
  void ReviveServer(uint32_t index) {
    ++view.epoch;
    view.servers[index].alive = true;
    view.servers[index].since = view.epoch;
    shards[index] = std::make_unique<ShardEnd>(*this, index);
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

  CodecsForTest codecs;
  wire::View view;
  int ticks = 0;
  std::map<Way, Queue> up;
  std::map<Way, Queue> down;
  std::vector<std::unique_ptr<ShardEnd>> shards;
  std::vector<std::unique_ptr<WorkerEnd>> workers;
};

}  // namespace byteps::protocol
