// A driver that records what a worker asks for.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/protocol/protocol_for_test.h"
#include "src/protocol/worker/worker.h"
#include "src/wire/error_row.h"

namespace byteps::protocol {

struct SentPush {
  ShardId to = 0;
  wire::DataHeader header;
  ConstByteSpan payload;
};

// Returns the payload of an answer with this error; empty if there is no error.
inline std::vector<std::byte> ErrorBytes(const SentPush& push, const Status& why) {
  wire::ErrorRow row;
  if (why.ok() || why.message().empty()) return {};
  row.Add(push.header.ref.round, why);
  return row.Encode(push.header.ref.round);
}

class RecordingWorkerDriver final : public WorkerDriver {
 public:
  void SendControl(const wire::Message& message) override { control.push_back(message); }
  void SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                BufferRef) override {
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
  void SendAbort(ShardId to, const wire::DataHeader& push, const std::string&) override {
    aborts.emplace_back(to, push.ref);
  }
  void SendAck(ShardId to, const wire::Progress& ack) override { acks.emplace_back(to, ack.count); }
  void SendProcessSet(ShardId to, const wire::Progress& number, const SlotSet& ranks) override {
    process_sets.emplace_back(to, number.count, ranks.List());
  }
  void SendJoined(ShardId to, const wire::Progress& number, const SlotSet&) override {
    joined.emplace_back(to, number.count);
  }
  void Forget(uint32_t, ConstByteSpan memory) override { forgotten.push_back(memory); }
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
  std::vector<std::tuple<ShardId, uint64_t, std::vector<uint32_t>>> process_sets;
  std::vector<std::pair<ShardId, uint64_t>> joined;
  std::vector<ConstByteSpan> forgotten;
  std::map<OperationId, int> completions;
  std::map<OperationId, Outcome> outcomes;
};

}  // namespace byteps::protocol
