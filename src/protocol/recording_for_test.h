// Drivers that write down what a state machine asks for, and an arithmetic that touches no memory.
#pragma once

#include <cstring>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/protocol/shard.h"
#include "src/protocol/worker.h"

namespace byteps::protocol {

inline constexpr Time kStart{};

// For tensors that have an address and no memory.
class NoArithmetic final : public Arithmetic {
 public:
  void Combine(byteps::Combine, DataType, std::byte*, std::span<const std::byte* const>,
               size_t) override {}
  void Average(DataType, std::byte*, std::span<const std::byte* const>, size_t, uint32_t) override {
  }
  void Copy(std::byte*, const std::byte*, size_t) override {}
};

struct SentAnswer {
  Slot to = 0;
  wire::DataHeader header;
  std::string bytes;
};

// REQUIRES: the answer is an error.
inline Status ErrorIn(const SentAnswer& answer) {
  uint64_t round = answer.header.ref.round;
  auto row = wire::ErrorRow::Decode(std::as_bytes(std::span(answer.bytes)), round);
  return row.ok() ? *row.value().Of(round) : row.status();
}

class RecordingShardDriver final : public ShardDriver {
 public:
  void SendAnswer(Slot to, const wire::DataHeader& header, ConstByteSpan payload,
                  BufferRef) override {
    ++answer_count;
    if (!record) return;
    const auto* text = reinterpret_cast<const char*>(payload.data());
    std::string whole(text, payload.size());
    answers.push_back({to, header, whole.substr(header.receipt)});  // without the receipt
  }
  void SendWant(Slot to, const std::vector<wire::PieceRef>& pieces) override {
    wants.emplace_back(to, pieces);
  }
  void SendStable(Slot to, const wire::Progress& told) override {
    stable.emplace_back(to, told.count);
  }

  bool record = true;
  uint64_t answer_count = 0;
  std::vector<SentAnswer> answers;
  std::vector<std::pair<Slot, std::vector<wire::PieceRef>>> wants;
  std::vector<std::pair<Slot, uint64_t>> stable;
};

struct SentPush {
  ShardId to = 0;
  wire::DataHeader header;
  ConstByteSpan payload;
};

// The payload of an answer with this error; empty without one.
inline std::vector<std::byte> ErrorBytes(const SentPush& push, const Status& why) {
  wire::ErrorRow row;
  if (why.ok() || why.message().empty()) return {};
  row.Add(push.header.ref.round, why);
  return row.Encode(push.header.ref.round);
}

class RecordingWorkerDriver final : public WorkerDriver {
 public:
  void SendControl(const wire::Message& message) override { control.push_back(message); }
  void SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload) override {
    pushes.push_back({to, header, payload});
  }
  void SendVerdict(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                   BufferRef) override {
    const auto* text = reinterpret_cast<const char*>(payload.data());
    verdicts.push_back({to, header, std::string(text, payload.size())});
  }
  void SendHave(ShardId to, uint64_t, const std::vector<wire::HeldPiece>& pieces) override {
    haves.emplace_back(to, pieces);
  }
  void SendResync(ShardId to, uint64_t epoch) override { resyncs.emplace_back(to, epoch); }
  void SendAbort(ShardId to, uint64_t, const wire::PieceRef& piece, const std::string&) override {
    aborts.emplace_back(to, piece);
  }
  void SendAck(ShardId to, const wire::Progress& ack) override { acks.emplace_back(to, ack.count); }
  void SendGroup(ShardId to, const wire::Progress& number, const SlotSet& slots) override {
    groups.emplace_back(to, number.count, slots.List());
  }
  void SendJoined(ShardId to, const wire::Progress& number) override {
    joined.emplace_back(to, number.count);
  }
  void Forget(ConstByteSpan memory) override { forgotten.push_back(memory); }
  void Complete(OperationId id, Outcome outcome) override {
    ++completions[id];
    outcomes[id] = std::move(outcome);
  }

  std::vector<wire::Message> control;
  std::vector<SentPush> pushes;
  std::vector<SentAnswer> verdicts;
  std::vector<std::pair<ShardId, std::vector<wire::HeldPiece>>> haves;
  std::vector<std::pair<ShardId, uint64_t>> resyncs;
  std::vector<std::pair<ShardId, wire::PieceRef>> aborts;
  std::vector<std::pair<ShardId, uint64_t>> acks;
  std::vector<std::tuple<ShardId, uint64_t, std::vector<Slot>>> groups;
  std::vector<std::pair<ShardId, uint64_t>> joined;
  std::vector<ConstByteSpan> forgotten;
  std::map<OperationId, int> completions;
  std::map<OperationId, Outcome> outcomes;
};

// `workers` workers and one server with `shards` equal shards.
inline wire::View ViewFor(uint32_t workers, uint32_t shards, uint32_t piece_bytes_max = 4096) {
  wire::View view;
  view.epoch = 1;
  view.generation = 1;
  view.began = 1;
  view.piece_bytes_max = piece_bytes_max;
  for (uint32_t i = 0; i < workers; ++i) view.workers.push_back({i, i, 100 + i, "h", i, 0, 1});
  wire::ServerInfo server;
  server.shard_weights.assign(shards, 1);
  if (shards > 0) view.servers.push_back(server);
  return view;
}

}  // namespace byteps::protocol
